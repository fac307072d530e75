package quorum_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

// scenarios are what a quorum has to hold, whatever happens to a minority.
var scenarios = []scenario{
	{"QUORUM-01", "a minority that fails costs no call", 3, minority},
	{"QUORUM-02", "a hold outlives the restart of one member after the other", 3, rolling},
	{"QUORUM-03", "a member that has forgotten has no vote", 3, newborn},
	{"QUORUM-04", "tokens rise over majorities that rotate", 3, rotating},
	{"QUORUM-05", "a client whose clock is an hour ahead moves no token far", 3, clockAhead},
	{"QUORUM-06", "contenders that split the votes come to an end", 3, split},
	{"QUORUM-07", "a reply that is lost is no refusal, and an outage is no grant", 3, lostReplies},
	{"QUORUM-08", "a grant that comes after Unlock ends", 3, lateGrant},
	{"QUORUM-09", "four members that are parted two and two grant nothing", 4, parted},
	{"QUORUM-10", "a lease is the shortest of the majority, from before it was asked for", 3, validity},
	{"QUORUM-11", "a thousand restarts, no overlap, no falling token", 3, restarts},
}

// failures are what can be wrong with one member; each gives what ends it.
var failures = map[string]func(*server) func(){
	"down": func(s *server) func() { s.setDown(true); return func() { s.setDown(false) } },
	"hung": func(s *server) func() { s.hang(); return s.resume },
	"slow": func(s *server) func() {
		old := s.delay.Swap(int64(700 * time.Millisecond))
		return func() { s.delay.Store(old) }
	},
}

func minority(x *trial) {
	const trip = 10 * time.Millisecond
	for _, s := range x.servers {
		s.delay.Store(int64(trip))
	}
	for name, fail := range failures {
		for i, s := range x.servers {
			c := x.client()
			held, _ := c.take("held", 30*time.Second)
			end := fail(s)
			timed := func(what string, do func() error) {
				trip := trip
				if what == "TryLock of a held key" { // which the member that is left might have granted
					trip *= 3
				}
				start := time.Now()
				if err := do(); err != nil {
					x.errorf("%s with member %d %s: %v", what, i, name, err)
				}
				if took := time.Since(start); took > trip {
					x.errorf("%s with member %d %s: took %v, want %v", what, i, name, took, trip)
				}
			}
			ctx, r := x.within(time.Minute), x.request(30*time.Second)
			timed("TryLock", func() error { _, err := c.TryLock(ctx, "k", r); return err })
			timed("TryLock of a held key", func() error {
				if _, err := c.TryLock(ctx, "k", x.request(30*time.Second)); !errors.Is(err, driver.ErrLocked) {
					return fmt.Errorf("%w, want a refusal", err)
				}
				return nil
			})
			timed("Renew", func() error { _, err := c.Renew(ctx, "k", r); return err })
			timed("RenewAll", func() error {
				holds := []driver.Hold{{Key: "k", Request: r}, {Key: "held", Request: held}}
				all := c.RenewAll(ctx, holds)
				return errors.Join(all[0].Err, all[1].Err)
			})
			timed("Inspect", func() error {
				h, err := c.Inspect(ctx, "k")
				if err == nil && h.ID != r.ID {
					x.errorf("Inspect: %q, want %q", h.ID, r.ID)
				}
				return err
			})
			list := func() error {
				n := 0
				for _, err := range c.List(ctx, "") {
					if err != nil {
						return err
					}
					n++
				}
				if n != 2 {
					x.errorf("List with member %d %s: %d keys, want 2", i, name, n)
				}
				return nil
			}
			if err := list(); err != nil {
				x.errorf("List with member %d %s: %v", i, name, err)
			}
			timed("Ping", func() error { return c.Ping(ctx) })
			timed("Unlock", func() error { return c.Unlock(ctx, "k", r.ID) })
			timed("Break", func() error { return c.Break(ctx, "held", held.ID) })
			_, err := c.Renew(ctx, "held", held)
			if !errors.Is(err, driver.ErrNotHeld) {
				x.errorf("Renew after Break: %v", err)
			}
			end()
			time.Sleep(time.Minute) // what is left lapses
		}
	}
}

func rolling(x *trial) {
	c, rival := x.client(), x.client()
	r, g := c.take("k", 30*time.Second)
	synctest.Wait() // it is on all members, not only on a majority
	for i, s := range x.servers {
		s.restart()
		if again := c.renew("k", r, "after a restart"); again.Token != g.Token {
			x.errorf("token after member %d has restarted: %d, want %d", i, again.Token, g.Token)
		}
		synctest.Wait()
		rival.refused("k", driver.ErrLocked, "of a held key, though members have restarted")
		time.Sleep(10 * time.Second)
	}
	c.renew("k", r, "after all members have restarted")
	time.Sleep(quorum.MaxTTL)
	last := g.Token
	_, next := rival.take("k", time.Second)
	x.rising(&last, next, "after all members have restarted")
}

func newborn(x *trial) {
	for _, fresh := range []bool{false, true} {
		holder, rival := x.client(), x.client()
		x.servers[2].setDown(true)
		warm, _ := rival.take("other", time.Second) // it knows how long the members have run
		rival.unlock("other", warm)
		_, g := holder.take("k", quorum.MaxTTL-time.Second)
		synctest.Wait()
		x.servers[2].setDown(false)
		x.servers[1].restart()
		if fresh {
			rival = x.client()
		}
		for range 5 {
			rival.refused("k", driver.ErrLocked, "of a key whose hold a member has forgotten")
			time.Sleep(10 * time.Second)
		}
		time.Sleep(quorum.MaxTTL)
		r, next := rival.take("k", time.Second)
		last := g.Token
		x.rising(&last, next, "after a restart")
		rival.unlock("k", r)
		time.Sleep(quorum.MaxTTL)
	}
}

func rotating(x *trial) {
	ahead := x.client()
	quorum.SetClock(ahead.Backend, 10*time.Second)
	clients := []*client{ahead, x.client(), x.client()}
	var last int64
	for turn := range 30 {
		absent := x.servers[(turn+2)%3]
		absent.setDown(true)
		c := clients[turn%3]
		r, g := c.take("k", 10*time.Second)
		x.rising(&last, g, "of the next majority")
		if turn%2 == 0 { // it raises the token where that is lower
			if again := c.renew("k", r, "by a majority"); again.Token != g.Token {
				x.errorf("token after a renewal: %d, want %d", again.Token, g.Token)
			}
		}
		c.unlock("k", r)
		synctest.Wait() // what a member that goes down has not released would stay for its lease
		absent.setDown(false)
	}
}

func clockAhead(x *trial) {
	wrong := x.client()
	quorum.SetClock(wrong.Backend, time.Hour)
	x.servers[2].ahead.Store(5_000_000)
	r, g := wrong.take("k", time.Second)
	wrong.unlock("k", r)
	synctest.Wait()
	last := g.Token
	x.servers[0].restart()
	x.servers[2].restart()
	x.servers[1].setDown(true)
	right := x.client()
	right.refused("k", nil, "without a member that has a vote")
	time.Sleep(quorum.MaxTTL)
	_, g = right.take("k", time.Second)
	x.rising(&last, g, "after a majority has forgotten it")
}

func split(x *trial) {
	const contenders, rounds = 5, 40
	rnd := rand.New(rand.NewPCG(1, 2))
	var all []*client
	for range contenders {
		all = append(all, x.client())
	}
	for round := range rounds {
		for _, s := range x.servers {
			s.delay.Store(int64(time.Duration(1+rnd.IntN(3)) * time.Millisecond))
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		won := 0
		for i, c := range all {
			r := x.request(30 * time.Second)
			// Each comes to another member first.
			wg.Go(func() {
				time.Sleep(time.Duration(i*round%7) * 100 * time.Microsecond)
				x.jitter(c, i+round)
				_, err := c.TryLock(x.t.Context(), "k", r)
				mu.Lock()
				if err == nil {
					won++
				} else if !errors.Is(err, driver.ErrLocked) {
					x.errorf("TryLock of %d contenders: %v", contenders, err)
				}
				mu.Unlock()
				if err == nil {
					time.Sleep(time.Second)
					c.unlock("k", r)
				}
			})
		}
		wg.Wait()
		if won != 1 {
			x.errorf("%d contenders, round %d: %d won, want 1", contenders, round, won)
		}
	}
}

// jitter makes the way of c to one member longer.
func (x *trial) jitter(c *client, n int) {
	for i, l := range c.links {
		l.extra.Store(int64((n + i) % 3 * int(time.Millisecond)))
	}
}

func lostReplies(x *trial) {
	c := x.client()
	x.servers[0].deafened.Store(1)
	r, _ := c.take("k", 30*time.Second)
	synctest.Wait() // also for the members that a majority does not need
	x.servers[1].deafened.Store(1)
	c.renew("k", r, "with one reply lost")
	synctest.Wait()
	x.servers[2].deafened.Store(1)
	c.unlock("k", r)
	synctest.Wait()
	for _, s := range x.servers {
		s.deafened.Store(0)
	}
	for _, s := range x.servers[1:] {
		s.deafened.Store(1)
	}
	c.refused("k", nil, "whose replies are lost")
	synctest.Wait()
	for _, s := range x.servers {
		s.deafened.Store(0)
	}
	r, _ = c.take("k", 30*time.Second)
	c.unlock("k", r)
	for _, s := range x.servers[1:] {
		s.setDown(true)
	}
	c.refused("k", nil, "below a majority")
	for _, s := range x.servers[1:] {
		s.setDown(false)
	}
	r, _ = x.client().take("k", 30*time.Second)
	for _, s := range x.servers[1:] {
		s.setDown(true)
	}
	c.refused("k", nil, "of a held key below a majority")
	if _, err := x.open[1].Renew(x.within(time.Minute), "k", r); err == nil {
		x.errorf("Renew below a majority: granted")
	}
}

func lateGrant(x *trial) {
	c, rival := x.client(), x.client()
	x.servers[2].hang()
	r, _ := c.take("k", 30*time.Second)
	c.unlock("k", r)
	time.Sleep(5 * time.Second)
	x.servers[2].resume() // does what it was asked to do
	for range 3 {
		next, _ := rival.take("k", time.Second)
		rival.unlock("k", next)
	}
	time.Sleep(30 * time.Second)
	if h, err := c.links[2].Inspect(x.t.Context(), "k"); !errors.Is(err, driver.ErrNotHeld) {
		x.errorf("the late member after a lease: %+v, %v, want that it is free", h, err)
	}
}

func parted(x *trial) {
	left, right := x.client(), x.client()
	r, _ := left.take("held", 20*time.Second)
	for i := range 2 {
		right.links[i].cut.Store(true)
		left.links[2+i].cut.Store(true)
	}
	for range 3 {
		left.refused("k", nil, "by half of the members")
		right.refused("k", nil, "by the other half")
	}
	if _, err := left.Renew(x.within(5*time.Second), "held", r); err == nil {
		x.errorf("Renew by half of the members: granted")
	}
	right.refused("held", nil, "by half of the members, when the other half has a hold")
	left.links[2].cut.Store(false)
	r, _ = left.take("k", 20*time.Second)
	right.refused("k", nil, "by half of the members")
	left.unlock("k", r)
	for _, l := range left.links[1:] {
		l.cut.Store(true)
	}
	if _, err := left.Renew(x.within(5*time.Second), "k", r); err == nil {
		x.errorf("Renew by one member: granted")
	}
}

func validity(x *trial) {
	c := x.client()
	for _, s := range x.servers {
		s.delay.Store(int64(200 * time.Millisecond))
	}
	start := time.Now()
	r := x.request(100 * time.Millisecond)
	g, err := c.TryLock(x.within(time.Minute), "late", r)
	if err == nil && g.Since.Add(g.TTL).After(start.Add(100*time.Millisecond)) {
		x.errorf("lease of 100ms that was asked for %v ago: lasts for %v more", time.Since(start), time.Until(g.Since.Add(g.TTL)))
	}
	x.servers[0].delay.Store(0)
	r = x.request(50 * time.Second)
	if _, err := c.links[0].TryLock(x.t.Context(), "k", r); err != nil {
		x.errorf("TryLock at one member: %v", err)
	}
	r.TTL = 5 * time.Second
	start = time.Now()
	if g, err := c.TryLock(x.within(time.Minute), "k", r); err != nil || g.Since.Add(g.TTL).After(start.Add(r.TTL)) {
		x.errorf("lease of 50s, 5s and 5s: %v, %v, want 5s", g.TTL, err)
	}
}

// restarts runs clients of one key while members restart, some without their data, or hang.
func restarts(x *trial) {
	const ends = 1000
	rnd := rand.New(rand.NewPCG(3, 4))
	var w witness
	w.x = x
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 3 {
		c := x.client()
		if i == 0 {
			quorum.SetClock(c.Backend, time.Hour)
		}
		seed := rnd.Uint64()
		wg.Go(func() { w.work(c, rand.New(rand.NewPCG(seed, 1)), stop) })
	}
	for range ends {
		s := x.servers[rnd.IntN(3)]
		switch rnd.IntN(4) {
		case 0:
			s.hang()
			time.Sleep(time.Duration(rnd.IntN(5000)) * time.Millisecond)
			s.resume()
		default:
			s.setDown(true)
			time.Sleep(time.Duration(rnd.IntN(2000)) * time.Millisecond)
			s.restart()
			s.setDown(false)
		}
		time.Sleep(time.Duration(rnd.IntN(100)) * time.Second)
	}
	close(stop)
	wg.Wait()
	if w.holds < ends {
		x.errorf("%d holds in %d restarts: want more", w.holds, ends)
	}
}
