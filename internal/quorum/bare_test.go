package quorum_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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
	b := s.store.Open()
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
		last := x.servers[2].store.Open()
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

// Nobody waits for the vote that is missing: a grant and a release take one round trip, and a hold that is released before it has
// that vote does not have it later.
func TestBareMajorityDelaysNobody(t *testing.T) {
	const trip = 10 * time.Millisecond
	inBubble(t, func(x *trial) {
		last := x.servers[2].store.Open()
		defer last.Close()
		ctx := context.Background()
		if _, err := last.TryLock(ctx, "k", driver.Request{ID: "contender", TTL: time.Minute}); err != nil {
			x.t.Fatal(err)
		}
		for _, s := range x.servers {
			s.delay.Store(int64(trip))
		}
		c := x.client()
		began := time.Now()
		r, _ := c.take("k", time.Minute)
		if took := time.Since(began); took != trip {
			t.Errorf("the grant took %v, want %v", took, trip)
		}
		time.Sleep(3 * trip) // the last server is being asked again
		began = time.Now()
		c.unlock("k", r)
		if took := time.Since(began); took != trip {
			t.Errorf("the release took %v, want %v", took, trip)
		}
		if err := last.Unlock(ctx, "k", "contender"); err != nil {
			t.Error(err)
		}
		time.Sleep(quorum.CallBound)
		if id := x.servers[2].holder("k"); id != "" {
			t.Errorf("%q has the key at the last server, after its release", id)
		}
	})
}

// What contenders leave to the one that wins is a hold at all members, long before its first renewal.
func TestContendersLeaveAWholeHold(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			random := rand.New(rand.NewPCG(seed, 2))
			stores := []*member{newMember(), newMember(), newMember()}
			var clients []*quorum.Backend
			for range 3 {
				var all []driver.Backend
				for _, s := range stores {
					all = append(all, unsteady{s, 2 * time.Millisecond, &mu, random})
				}
				c := quorumOf(t, all...)
				defer c.Close()
				clients = append(clients, c)
			}
			for round := range 10 {
				for _, id := range contend(t, clients, round) {
					time.Sleep(quorum.ContendFor)
					for i, s := range stores {
						if h, err := s.Inspect(t.Context(), "k"); err != nil || h.ID != id {
							t.Errorf("seed %d, round %d: member %d has %q, %v, want %q", seed, round, i+1, h.ID, err, id)
						}
					}
					if err := clients[0].Unlock(t.Context(), "k", id); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// A key that a bare majority has is locked: who tries it learns that long before contenders would give up.
func TestBareMajorityIsLocked(t *testing.T) {
	inBubble(t, func(x *trial) {
		for _, s := range x.servers[:2] {
			b := s.store.Open()
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
