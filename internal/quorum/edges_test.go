package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

func newMember() *member { return &member{members: memory.New()} }

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

// Two members that are one server have one vote, whatever they are called.
func TestOneServerTwice(t *testing.T) {
	one, two, again := newMember(), newMember(), newMember()
	again.members = one.members
	for m, run := range map[*member]string{one: "a.1", two: "b.1", again: "a.2"} {
		m.run, m.age = run, time.Hour
	}
	b := quorumOf(t, one, two, again)
	two.away = true
	r := driver.Request{ID: "x", TTL: time.Second}
	if _, err := b.TryLock(t.Context(), "k", r); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "member 3, memory is the server of member 1, memory") {
		t.Errorf("by one server under two names: %v, want ErrInvalid", err)
	}
	if _, err := one.Inspect(t.Context(), "k"); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("the server: %v, want what it granted given back", err)
	}
}

// Thousands of holds are healed by one renewal, also where that needs them.
func TestManyHeals(t *testing.T) {
	t.Run("all answer", func(t *testing.T) { manyHeals(t, false) })
	t.Run("one is down", func(t *testing.T) { manyHeals(t, true) })
}

func manyHeals(t *testing.T, down bool) {
	const many = 3000
	synctest.Test(t, func(t *testing.T) {
		x := &trial{t: t, servers: []*server{newServer(), newServer(), newServer()}}
		c := x.client()
		defer c.Close()
		holds := make([]driver.Hold, many)
		for i := range holds {
			key := fmt.Sprint(i)
			r, _ := c.take(key, 30*time.Second)
			holds[i] = driver.Hold{Key: key, Request: r}
		}
		synctest.Wait() // they are on all members
		for _, s := range x.servers {
			s.delay.Store(int64(time.Millisecond))
		}
		x.servers[0].restart()
		x.servers[1].setDown(down)
		lost, missing := 0, 0
		for _, r := range c.RenewAll(t.Context(), holds) {
			if r.Err != nil {
				lost++
			}
		}
		time.Sleep(5 * time.Second) // less than until the next renewal
		synctest.Wait()
		for _, h := range holds {
			if _, err := c.links[0].Inspect(t.Context(), h.Key); err != nil {
				missing++
			}
		}
		if lost > 0 || missing > 0 {
			t.Errorf("of %d: %d not renewed, %d not healed", many, lost, missing)
		}
	})
}

// An attempt that no member can have got was not sent. One that a member may have got was.
func TestNobodyIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &trial{t: t, servers: []*server{newServer(), newServer(), newServer()}}
		c := x.client()
		defer c.Close()
		for _, s := range x.servers {
			s.setDown(true)
		}
		if _, err := c.TryLock(t.Context(), "k", x.request(time.Second)); !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("all members are down: %v, want ErrNotSent", err)
		}
		c.links[1].cut.Store(true)
		if _, err := c.TryLock(t.Context(), "k", x.request(time.Second)); err == nil || driver.Definite(err) {
			t.Errorf("a member may have been asked: %v, want an unknown outcome", err)
		}
	})
}

// A member that grants late may do so by a greater token, which is not the hold's.
func TestTokenOfALateMember(t *testing.T) {
	inTrial(t, func(x *trial) {
		ctx := x.t.Context()
		ahead := driver.Request{ID: "before", TTL: time.Second, Floor: time.Now().Add(10 * time.Second).UnixMicro()}
		first := &link{s: x.servers[0]}
		_, err := first.TryLock(ctx, "k", ahead)
		if err := errors.Join(err, first.Unlock(ctx, "k", ahead.ID)); err != nil {
			x.t.Fatal(err)
		}
		c := x.client()
		c.links[0].extra.Store(int64(time.Millisecond))
		r, g := c.take("k", 10*time.Second)
		time.Sleep(time.Second)
		other := x.client()
		other.links[1].extra.Store(int64(time.Millisecond))
		if again, err := other.TryLock(ctx, "k", r); err != nil || again.Token != g.Token {
			x.errorf("TryLock by the same id over another client: token %d, %v, want %d", again.Token, err, g.Token)
		}
		for i := range x.servers {
			for _, l := range c.links {
				l.extra.Store(0)
			}
			c.links[i].extra.Store(int64(time.Millisecond / 2)) // answers last
			if h, err := c.Inspect(ctx, "k"); err != nil || int64(h.Token) != g.Token {
				x.errorf("Inspect: token %d, %v, want %d", h.Token, err, g.Token)
			}
		}
	})
}
