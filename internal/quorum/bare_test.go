package quorum_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

// inBubble runs do with three servers in fake time.
func inBubble(t *testing.T, do func(x *trial)) {
	t.Helper()
	s := scenario{members: 3, run: do}
	for _, wrong := range s.try(t) {
		t.Error(wrong)
	}
}

// holder is who has key at a server; "" if nobody has.
func (s *server) holder(key string) string {
	b := s.store.Open().(members)
	defer b.Close()
	h, err := b.Inspect(context.Background(), key)
	if err != nil {
		return ""
	}
	return h.ID
}

// A hold that the vote of a contender has left with a bare majority has that vote, too, once the contender has given it back.
func TestBareMajorityIsCompleted(t *testing.T) {
	inBubble(t, func(x *trial) {
		last := x.servers[2].store.Open().(members)
		defer last.Close()
		ctx := context.Background()
		if _, err := last.TryLock(ctx, "k", driver.Request{ID: "contender", TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		r, _ := x.client().take("k", time.Minute)
		if id := x.servers[2].holder("k"); id != "contender" {
			t.Fatalf("%q has the last server: the test shows nothing", id)
		}
		if err := last.Unlock(ctx, "k", "contender"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(quorum.ContendFor)
		if id := x.servers[2].holder("k"); id != r.ID {
			t.Errorf("%q has the key at the last server, want that the holder asked for it again", id)
		}
	})
}

// A key that a bare majority has is locked: who tries it learns that long before contenders would give up.
func TestBareMajorityIsLocked(t *testing.T) {
	inBubble(t, func(x *trial) {
		for _, s := range x.servers[:2] {
			b := s.store.Open().(members)
			defer b.Close()
			if _, err := b.TryLock(context.Background(), "k", driver.Request{ID: "holder", TTL: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		c := x.client()
		for _, s := range x.servers {
			s.delay.Store(int64(time.Millisecond))
		}
		began := time.Now()
		c.refused("k", driver.ErrLocked, "of a key that a bare majority has")
		if took := time.Since(began); took > 20*time.Millisecond {
			t.Errorf("it took %v to learn that the key is locked", took)
		}
	})
}

// Servers that have started lately grant nothing that counts. That is said once, and that nothing is left of the attempt.
func TestNewServersAreToldOnce(t *testing.T) {
	inBubble(t, func(x *trial) {
		for _, s := range x.servers {
			s.restart()
		}
		_, err := x.client().TryLock(context.Background(), "k", x.request(time.Minute))
		if !errors.Is(err, driver.ErrNotSent) || strings.Count(err.Error(), "do not count") != 1 {
			t.Errorf("%v: want ErrNotSent, and once that grants do not count", err)
		}
	})
}
