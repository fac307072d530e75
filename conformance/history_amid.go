package conformance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordgo/coord/conformance/internal/history"
	"github.com/coordgo/coord/driver"
)

// interrupt is a fault of the store while everybody plays.
type interrupt struct {
	breaks func(e *env) // and ends that
	// part says that the store serves meanwhile, if by other servers.
	part bool
}

var (
	restart  = interrupt{breaks: killAndRestart}
	stop     = interrupt{breaks: pauseAndResume}
	failover = interrupt{breaks: func(e *env) { e.r.suite.Harness.Faults.Failover(e) }, part: true}
)

func killAndRestart(e *env) {
	f := e.r.suite.Harness.Faults
	f.Kill(e)
	f.Restart(e)
}

func pauseAndResume(e *env) {
	f := e.r.suite.Harness.Faults
	f.Pause(e)
	resume := func() { f.Resume(e) }
	e.Cleanup(func() { resume() })
	e.pass(e.ttl + e.ttl/2)
	f.Resume(e)
	resume = func() {}
}

// forgets reports whether the store may lose in it what it has acknowledged.
func (i interrupt) forgets(e *env) bool {
	return i.part && !e.r.suite.Harness.Claims.Has(driver.DurableFailover)
}

// outage is the time of an interrupt. Clients whose call has failed wait for its end, so that each learns of it from a few
// calls: with many calls of unknown outcome a history says little, and takes long to check.
type outage struct {
	part bool

	mu   sync.Mutex
	over chan struct{} // closed at its end, nil while there is none
}

func (o *outage) begin() (end func()) {
	over := make(chan struct{})
	set := func(c chan struct{}) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.over = c
	}
	set(over)
	return func() {
		set(nil)
		close(over)
	}
}

// wait waits for its end, if there is one, or for a while if other servers may serve soon.
func (o *outage) wait(ctx context.Context) {
	if o == nil {
		return
	}
	o.mu.Lock()
	over := o.over
	o.mu.Unlock()
	if over == nil {
		return
	}
	var again <-chan time.Time
	if o.part {
		t := time.NewTimer(500 * time.Millisecond)
		defer t.Stop()
		again = t.C
	}
	select {
	case <-over:
	case <-again:
	case <-ctx.Done():
	}
}

// game is what is played, and its histories.
type game struct {
	parties []*party
	logs    []*history.Log
	plays   []func(over context.Context)
}

// add adds parties who play, at the driver if they have an outage to wait for.
func (g *game) add(h *history.Log, parties []*party, play func(over context.Context)) {
	g.parties, g.logs, g.plays = append(g.parties, parties...), append(g.logs, h), append(g.plays, play)
}

// playUntil has each play go on, at least once, until over is done.
func (g *game) playUntil(over context.Context) {
	var wg sync.WaitGroup
	for _, play := range g.plays {
		wg.Go(func() {
			for play(over); over.Err() == nil; play(over) {
			}
		})
	}
	wg.Wait()
}

// amid begins a game, breaks the store in the middle of it, and has it go on until something of each history succeeds again.
// A game on a store that may have forgotten it proves nothing: another one takes its place.
func (e *env) amid(broken interrupt, begin func(name string) *game) *game {
	g := begin("")
	down := &outage{part: broken.part}
	for _, p := range g.parties {
		p.outage, p.patience, p.gap = down, time.Second, longGap
	}
	over, end := context.WithCancel(e.ctx)
	defer end()
	playing := async(func() error { g.playUntil(over); return nil })
	e.until(soon, "a few calls on the store before it is broken", func() bool { return g.recorded() > 4*len(g.parties) })
	e.breakIt(broken, down, g.parties)
	end()
	_ = recv(e, playing, watchdog, "the calls that were under way when the store was broken to end")
	if broken.forgets(e) {
		g = begin("after/")
	}
	e.goesOn(g, over)
	return g
}

// breakIt breaks the store, and ends that.
func (e *env) breakIt(broken interrupt, down *outage, parties []*party) {
	end := down.begin()
	for _, p := range parties {
		if broken.part { // a client's library may send a call again, to another server
			p.chaos.Begin()
			defer p.chaos.End()
		}
	}
	defer end()
	broken.breaks(e)
}

// goesOn plays on until something of each history has succeeded that began when the store was whole.
func (e *env) goesOn(g *game, over context.Context) {
	since := make([]int64, len(g.logs))
	for i, h := range g.logs {
		since[i] = h.Now()
	}
	for start := time.Now(); ; {
		g.playUntil(over)
		idle := ""
		for i, h := range g.logs {
			if !h.Since(since[i]) {
				last := h.Last()
				idle += fmt.Sprintf("\n%s: the last was %s of %s: %s %s", h.Model, last.Op, last.Key, last.Result, last.Error)
			}
		}
		switch {
		case idle == "" || e.ctx.Err() != nil:
			return
		case time.Since(start) > watchdog:
			e.Fatalf("a store that is whole again: saw no call of these succeed within %v:%s", watchdog, idle)
		}
	}
}

// recorded is how many operations there are by now.
func (g *game) recorded() int {
	n := 0
	for _, h := range g.logs {
		n += h.Len()
	}
	return n
}

// holdsAmid is of leases, shares and owners, and of processes that die while they hold.
func holdsAmid(broken interrupt) func(*env) {
	return func(e *env) {
		e.abandons() // a server that stood still may apply a request long after it was given up
		inherit := func() {}
		if broken.part && e.r.suite.Harness.lacks(HookWorker) == "" {
			var die func()
			die, inherit = e.mortals()
			breaks := broken.breaks
			broken.breaks = func(e *env) { die(); breaks(e) }
		}
		g := e.amid(broken, func(name string) *game {
			var g game
			leasers, _ := withoutFaults(e, 3)
			h := e.record(history.Heading{Model: history.ModelHolds}) // a restart may prolong leases
			leases := e.leases(h, leasers, name)
			g.add(h, leasers, func(context.Context) { leases(leaseMoves / 2) })
			clients, _ := withoutFaults(e, 3)
			h = e.record(history.Heading{Model: history.ModelOwners})
			owned := e.ownerships(h, clients[:2], name)
			g.add(h, nil, func(context.Context) { owned(ownerRounds / 2) })
			h = e.record(history.Heading{Model: history.ModelOwners})
			g.add(h, nil, e.keepers(h, clients, name))
			if e.info.Claims.Has(driver.Shared) {
				sharers, _ := withoutFaults(e, 3)
				h = e.record(history.Heading{Model: history.ModelHolds})
				shares := e.shares(h, sharers, name)
				g.add(h, sharers, func(context.Context) { shares(shareMoves / 4) })
			}
			return &g
		})
		e.linearizable(g.logs...)
		inherit()
	}
}

func countsAmid(broken interrupt) func(*env) {
	return func(e *env) {
		var accounts []*account
		e.amid(broken, func(name string) *game {
			parties, _ := withoutFaults(e, historyParties)
			accounts = e.accounts(history.ModelCounter, counters(), name)
			count := e.counts(accounts, parties)
			return &game{parties, histories(accounts), []func(context.Context){func(context.Context) { count(countMoves / 2) }}}
		})
		e.linearizable(histories(accounts)...)
	}
}

// mortals are processes that hold, a lock the one, and a key to write the other if the store has such. die kills them, and
// inherit waits for what they had.
func (e *env) mortals() (die, inherit func()) {
	key, kinds := e.key("dead"), []*kind{lockKind}
	if e.info.Claims.Has(driver.Shared) {
		kinds = append(kinds, writeKind)
	}
	var workers []*worker
	for _, k := range kinds {
		w, o := e.startWorker(), order{Do: "lock", Kind: k.name, Key: key, TTL: e.ttl}
		a := w.try(o)
		for start := time.Now(); a.Err != "" && time.Since(start) < watchdog; a = w.try(o) { // a lease is too short for a store that is slow now
			e.Logf("a process that is to die: %s", a.Err)
		}
		if a.Err != "" {
			e.Fatalf("a process that is to die: saw %s, want it to hold", a.Err)
		}
		workers = append(workers, w)
	}
	die = func() {
		for _, w := range workers {
			w.kill()
		}
	}
	return die, func() {
		for _, k := range kinds {
			e.gaveBack(e.inherits(k, key, "that died").Unlock(e.ctx), "Unlock of what a process had that died")
		}
	}
}
