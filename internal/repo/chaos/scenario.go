// Package chaos drives many clients against one store while the store's servers are
// killed, cut off and restarted, and checks what coord promises of them: no two live
// holders of a lock, no writer beside others, no semaphore above its bound, tokens that rise, limits within their
// bound, shares of dead holders that come back, calls that end with their context, and work that goes on once the store is
// whole again.
//
// All clients are in one process, so that what they see can be compared on one clock.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// Scenario is what to do.
type Scenario struct {
	// Name of the store and its topology, for the report.
	Name string
	// Open opens a client of its own at each call.
	Open func() (*coord.Client, error)
	// Clients lock, limit and check all the time; default 20.
	Clients int
	// Keys is how many exclusive locks they contend for; default 5. On a store that has shared holds there are two semaphores
	// and two read/write locks besides.
	Keys int
	// TTL of the locks; default 1 s.
	TTL time.Duration
	// Limit that all clients share; default 50/1s.
	Limit coord.Limit
	// For is how long the scenario lasts. A break that has begun is brought to its end. 0 is one round: each break once.
	For time.Duration
	// Breaks happen in turn, again and again.
	Breaks []Break
	// Settle is how long after a heal every key must have been locked anew, and the limit have answered, and how long the
	// store may take to answer at first; default 1 min, for a machine that is busy: the report says how long it took.
	Settle time.Duration
	// Lossy says that the store may lose acknowledged writes at a failover, as stores
	// with asynchronous replication do. What goes wrong between a break and the end of
	// one TTL after its heal is then reported, but is no failure.
	Lossy bool
	// Die has a process of its own lock as m, and kills it then. It is called again and again by one goroutine, if it is set
	// and the store has shared holds.
	Die func(ctx context.Context, m Mortal) error
	// Grace is how long after its lease the share of a dead holder may be kept, as stores have steps and who waits polls;
	// default 5 s.
	Grace time.Duration
	// Log tells what happens, if set.
	Log func(format string, args ...any)
}

// Break is one thing that goes wrong, and how it ends.
type Break struct {
	Name string
	// Break breaks the store, Heal makes it whole. Either may be nil.
	Break, Heal func()
	// Lasts is the time between the two.
	Lasts time.Duration
}

func (s *Scenario) defaults() {
	if s.Clients == 0 {
		s.Clients = 20
	}
	if s.Keys == 0 {
		s.Keys = 5
	}
	if s.TTL == 0 {
		s.TTL = time.Second
	}
	if s.Limit == (coord.Limit{}) {
		s.Limit = coord.PerSecond(50)
	}
	if s.Settle == 0 {
		s.Settle = time.Minute
	}
	if s.Grace == 0 {
		s.Grace = 5 * time.Second
	}
	if s.Log == nil {
		s.Log = func(string, ...any) {}
	}
}

// sharedKeys is how many semaphores there are, and as many read/write locks.
const sharedKeys = 2

// calm is how long clients work undisturbed before each break.
const calm = 2 * time.Second

// Run runs the scenario. The error is about opening clients; what they saw is
// in the report.
func (s Scenario) Run(ctx context.Context) (*Report, error) {
	s.defaults()
	check := newChecker(&s)
	defer check.clock.stop()
	clients := make([]*coord.Client, 0, s.Clients)
	closeAll := func() {
		for _, c := range clients {
			start := time.Now()
			err := c.Close()
			check.closed(time.Since(start), err)
		}
	}
	for range s.Clients {
		c, err := s.open(ctx)
		if err != nil {
			closeAll()
			return nil, fmt.Errorf("open client %d: %w", len(clients), err)
		}
		clients = append(clients, c)
	}
	shares := clients[0].Info().Claims.Has(driver.Shared)
	check.share(shares)
	working, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if shares && s.Die != nil {
		check.rep.mourns = true
		h := &successor{scenario: &s, check: check, c: clients[0]}
		wg.Go(func() { h.work(working) })
	}
	for i, c := range clients {
		w := &worker{scenario: &s, check: check, c: c, rand: rand.New(rand.NewPCG(uint64(i), 1))}
		wg.Go(func() { w.work(working) })
	}
	s.breakAll(ctx, check)
	stop()
	wg.Wait()
	closeAll()
	return check.report(), nil
}

// open opens a client, as soon as the store answers.
func (s *Scenario) open(ctx context.Context) (*coord.Client, error) {
	for deadline := time.Now().Add(s.Settle); ; pause(ctx, calm) {
		c, err := s.Open()
		if !errors.Is(err, coord.ErrUnavailable) || time.Now().After(deadline) {
			return c, err
		}
		s.Log("chaos: %v", err)
	}
}

// breakAll makes one break after the other until the time is over, or each has been made once.
func (s *Scenario) breakAll(ctx context.Context, check *checker) {
	end := time.Now().Add(s.For)
	over := func(i int) bool {
		if s.For == 0 {
			return i == len(s.Breaks)
		}
		return !time.Now().Before(end)
	}
	for i := 0; ctx.Err() == nil; i++ {
		pause(ctx, calm)
		if len(s.Breaks) == 0 {
			pause(ctx, time.Until(end))
		}
		if over(i) || ctx.Err() != nil {
			return
		}
		b := s.Breaks[i%len(s.Breaks)]
		s.Log("chaos: %s", b.Name)
		check.broken(b.Name)
		if b.Break != nil {
			b.Break()
		}
		pause(ctx, b.Lasts)
		if b.Heal != nil {
			b.Heal()
		}
		check.healed()
		took, missing := check.awaitWork(ctx, s.Settle)
		s.Log("chaos: %s: work went on %v after the heal %s", b.Name, took.Round(time.Millisecond), missing)
	}
}

// pause lets time pass; breaks are about what happens meanwhile.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
