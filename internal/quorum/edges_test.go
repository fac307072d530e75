package quorum_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

// member is a store of its own that can be a member, and answers as a test wants.
type member struct {
	members
	away   bool // for TryLock
	plain  bool // TryLock is refused, and not said for how long
	run    string
	age    time.Duration
	unlock func(ctx context.Context, key, id string) error // nil: the store's
}

func newMember() *member { return &member{members: memory.New().(members)} }

func (m *member) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	switch {
	case m.away:
		return driver.Grant{}, errRefused
	case m.plain:
		return driver.Grant{}, driver.ErrLocked
	}
	g, err := m.members.TryLock(ctx, key, r)
	if m.run != "" {
		g.Run, g.Age = m.run, m.age
	}
	return g, err
}

func (m *member) Unlock(ctx context.Context, key, id string) error {
	if m.unlock != nil {
		return m.unlock(ctx, key, id)
	}
	return m.members.Unlock(ctx, key, id)
}

func quorumOf(t *testing.T, all ...driver.Backend) *quorum.Backend {
	t.Helper()
	b, err := quorum.New(quorum.MaxTTL, all...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A release whose outcome is not known may arrive after the member has granted to the same id again: that grant is no vote.
func TestReleaseThatComesLate(t *testing.T) {
	ctx, ttl := t.Context(), 30*time.Second
	one, two, three := newMember(), newMember(), newMember()
	for _, m := range []*member{one, two} {
		if _, err := m.TryLock(ctx, "k", driver.Request{ID: "other", TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	late := make(chan func() error, 1)
	three.unlock = func(_ context.Context, key, id string) error {
		three.unlock = nil
		late <- func() error { return three.members.Unlock(context.Background(), key, id) }
		return context.DeadlineExceeded
	}
	b := quorumOf(t, one, two, three)
	r := driver.Request{ID: "waiter", TTL: ttl}
	if _, err := b.TryLock(ctx, "k", r); !errors.Is(err, driver.ErrLocked) {
		t.Fatalf("beside a holder: %v, want ErrLocked", err)
	}
	arrives := <-late
	for _, m := range []*member{one, two} {
		if err := m.Unlock(ctx, "k", "other"); err != nil {
			t.Fatal(err)
		}
	}
	two.away = true // for this client
	for range 10 {
		if g, err := b.TryLock(ctx, "k", r); err == nil {
			t.Fatalf("granted with the vote of a member that may yet release it: %+v", g)
		}
	}
	two.away = false
	g, err := b.TryLock(ctx, "k", r)
	if err != nil {
		t.Fatalf("with the votes of the other two: %v", err)
	}
	if err := arrives(); err != nil && !errors.Is(err, driver.ErrNotHeld) {
		t.Fatal(err)
	}
	if again, err := b.Renew(ctx, "k", r); err != nil || again.Token != g.Token {
		t.Errorf("renewed: %+v, %v: want token %d", again, err, g.Token)
	}
}

// A client that asks seldom believes the age of a run that began after all that it has seen was over, as a new client does.
func TestRestartLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*member
		var backends []driver.Backend
		for _, run := range []string{"a1", "b1", "c1"} {
			m := newMember()
			m.run, m.age = run, time.Hour
			all, backends = append(all, m), append(backends, m)
		}
		b := quorumOf(t, backends...)
		defer b.Close()
		take := func(id string) error {
			r := driver.Request{ID: id, TTL: time.Second}
			_, err := b.TryLock(t.Context(), "k", r)
			time.Sleep(r.TTL) // until it is over
			synctest.Wait()   // calls that nobody waits for
			return err
		}
		if err := take("a"); err != nil {
			t.Fatal(err)
		}
		all[0].run, all[1].run = "a2", "b2"
		if err := take("b"); err == nil {
			t.Error("granted by members that have restarted within the longest lease")
		}
		time.Sleep(2 * quorum.MaxTTL)
		all[0].run, all[1].run = "a3", "b3"
		if err := take("c"); err != nil {
			t.Errorf("after restarts an hour ago: %v", err)
		}
	})
}

// A refusal need not say for how long.
func TestRefusalWithoutATime(t *testing.T) {
	one, two := newMember(), newMember()
	one.plain, two.plain = true, true
	if _, err := quorumOf(t, one, two, newMember()).TryLock(t.Context(), "k", driver.Request{ID: "a", TTL: time.Second}); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("%v, want ErrLocked", err)
	}
}
