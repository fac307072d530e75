package conformance

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/conformance/internal/fault"
	"github.com/coordgo/coord/driver"
)

// party is a client of a run, and the faults on its way to the store.
type party struct {
	backend driver.Backend
	dice    *rand.Rand
	// chaos breaks the network, if the run has it.
	chaos fault.Chaos
	// patience is how long a call may take.
	patience time.Duration
	// gap is about how long to rest between two moves.
	gap time.Duration
	// outage is where to wait after a call that failed, nil if there is no outage to come.
	outage *outage
}

// conditions open the parties of a run under some kind of faults. endFaults ends the faults.
type conditions func(e *env, n int) (parties []*party, endFaults func())

// dice gives a source of random numbers that depends on the suite's seed, the case and how many
// were made before.
func (e *env) dice() *rand.Rand {
	e.randMu.Lock()
	defer e.randMu.Unlock()
	return rand.New(rand.NewPCG(e.rand.Uint64(), e.rand.Uint64()))
}

// withoutFaults has no faults.
func withoutFaults(e *env, n int) ([]*party, func()) {
	parties := make([]*party, n)
	for i := range parties {
		parties[i] = &party{backend: e.open(), dice: e.dice(), patience: e.bound(soon), gap: shortGap}
	}
	return parties, func() {}
}

const (
	shortGap = 3 * time.Millisecond
	// longGap leaves time for faults that come by the clock.
	longGap = 20 * time.Millisecond
)

// hangs is how long a call of a run with faults may take: one that hangs has that much to wait.
func (e *env) hangs() time.Duration {
	if e.timely() {
		return 150 * time.Millisecond
	}
	return time.Second // the others are answered within it
}

// lossyCalls loses requests and replies, and lets calls hang: which call of a client meets which
// fault depends on the seed alone.
func lossyCalls(e *env, n int) ([]*party, func()) {
	parties := make([]*party, n)
	injectors := make([]*Injector, n)
	var met atomic.Int64
	for i := range parties {
		b, in := e.injected()
		in.faults.Script(fault.Lossy(e.dice(), &met))
		parties[i] = &party{backend: b, dice: e.dice(), patience: e.hangs(), gap: shortGap}
		injectors[i] = in
	}
	return parties, func() {
		for _, in := range injectors {
			in.Script(nil)
		}
		e.met("calls that were failed", int(met.Load()))
	}
}

// met counts the faults of a run. One without any has not shown what it is about.
func (e *env) met(what string, n int) {
	if n == 0 {
		e.Errorf("%s: saw none, want some: the run shows nothing", what)
	}
}

// brokenNetwork breaks the connections of each client by turns.
func brokenNetwork(e *env, n int) ([]*party, func()) {
	parties := make([]*party, n)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	for i := range parties {
		start := time.Now()
		b, link := byNetwork(e)
		// A call that is stalled has time to come through once the fault is over.
		p := &party{backend: b, dice: e.dice(), patience: 2 * e.hangs(), gap: longGap}
		p.chaos.Connect = min(time.Since(start), time.Second)
		parties[i] = p
		dice := e.dice()
		wg.Go(func() { p.chaos.Run(link, dice, quit) })
	}
	var once sync.Once
	endFaults := func() {
		once.Do(func() {
			close(quit)
			wg.Wait()
		})
	}
	e.Cleanup(endFaults)
	return parties, endFaults
}

// pause lets up to most pass, unless the case ends.
func (p *party) pause(e *env, most time.Duration) {
	rest(e.ctx, time.Duration(p.dice.Int64N(int64(most))))
}

// rest lets d pass, unless ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
