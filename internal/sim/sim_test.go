package sim

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

// everyRun is how many seeds, from 0 on, every run has.
const everyRun = 48

var (
	oneSeed = flag.Int("seed", -1, "run this seed alone, and tell all that happens")
	seeds   = flag.Int("seeds", everyRun, "run so many seeds, from 0 on")
)

// One goroutine runs at a time: what happens in one moment of fake time has an order then, unless the machine takes the
// processor away in the middle of it.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	goleak.VerifyTestMain(m)
}

// simulate runs a plan in a bubble of its own. The bubble ends when no goroutine is left in it.
func simulate(t *testing.T, p *plan, bend func(store) store, first, keep bool) (o *outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var w *world
		w, o = run(p, bend, first, keep)
		for _, line := range w.lines {
			t.Log(line)
		}
	})
	return o
}

// soundRuns are those of a store that is as it should be, by seed.
var soundRuns = map[uint64]*outcome{}

// sound gives the run of a seed on such a store. It is made once.
func sound(t *testing.T, seed uint64) *outcome {
	t.Helper()
	if soundRuns[seed] == nil {
		soundRuns[seed] = simulate(t, planOf(seed), nil, false, *oneSeed >= 0)
	}
	return soundRuns[seed]
}

// repeatable is for the tests of more than one seed that need each to be one run.
func repeatable(t *testing.T) {
	switch {
	case *oneSeed >= 0:
		t.Skip("unsupported: -seed runs one seed, in TestSeeds")
	case shuffled:
		t.Skip("unsupported: with the race detector a seed is another run each time")
	}
}

// No seed shows anything that should not be.
func TestSeeds(t *testing.T) {
	from, to := 0, *seeds
	if *oneSeed >= 0 {
		from, to = *oneSeed, *oneSeed+1
	}
	began, served := cpu(), time.Duration(0)
	for seed := uint64(from); seed < uint64(to); seed++ {
		p := planOf(seed)
		o := sound(t, seed)
		served += o.served
		if t.Failed() || testing.Verbose() {
			t.Logf("seed %d: %v: %v", seed, p, o)
		}
		for _, v := range o.violations {
			t.Errorf("seed %d: %s: %s\n\tgo test ./internal/sim -seed %d", seed, v.kind, v.text, seed)
		}
	}
	used := cpu() - began
	t.Logf("%d seeds, %.0f client-seconds in %v of processor time: %.0f a second", to-from, served.Seconds(), used, served.Seconds()/used.Seconds())
}

// A seed is one run: whoever runs it again sees the same. The machine may disturb a moment of one run, or of two, but not
// of each.
func TestRepeat(t *testing.T) {
	repeatable(t)
	for seed := range uint64(themes) {
		p := planOf(seed + uint64(themes)) // with faults
		seen := map[string]bool{}
		for {
			o := fmt.Sprint(simulate(t, p, nil, false, false))
			if seen[o] {
				break
			}
			if seen[o] = true; len(seen) == 5 {
				t.Errorf("seed %d: five runs, and no two are the same: %v", p.seed, seen)
				break
			}
		}
	}
}
