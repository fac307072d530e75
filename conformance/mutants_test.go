package conformance_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// store is what the memory store can do, of which a mutant overrides a part. It has no
// TakeOne, so that every request goes through Take.
type store interface {
	driver.Backend
	driver.Locker
	driver.Queuer
	driver.DelayedUnlocker
	driver.Inspector
	driver.Breaker
	driver.Lister
	driver.Pinger
	driver.Limiter
	driver.MultiLimiter
	driver.Refunder
	driver.Charger
}

// A mutant is a driver with one plausible bug. Each must be killed by the cases that are
// about its bug, for else those cases prove nothing.
type mutant struct {
	name, bug string
	new       func() conformance.Harness
	// sound is the same driver without the bug, by its name in soundDrivers.
	sound   string
	killers []string // cases that must fail
}

// allMutants is the table, by subject. Those with thousands of callers come last: they leave the cases beside them no time, which then run again.
func allMutants() []mutant {
	return slices.Concat(leaseMutants, ownerMutants, tokenMutants, queueMutants, lossMutants, operatorMutants,
		keyMutants, callMutants, claimMutants, boundMutants, answerMutants, reserveMutants, chargeMutants, cellMutants, refuseMutants, lateMutants, memberMutants, severalKeysMutants, electionMutants, sharedMutants, conditionMutants, voteMutants,
		callerMutants)
}

// soundDrivers are what the mutants are made of: they pass what kills the mutants.
var soundDrivers = map[string]func() conformance.Harness{
	"":           on(func(s store) driver.Backend { return struct{ store }{s} }),
	"renumbered": renumbered(func(_ string, token int64) int64 { return token + 1000 }),
	"seeded":     seeded(true),
	"durable":    restarting(true, driver.DurableRestart, driver.TokenRestart),
	"queue":      lined(queueBug{}),
	"pushing":    pushed(func(fn notify, key, id string) { fn(key, id, driver.ErrNotHeld) }),
	"batching":   batched(func([]driver.Renewal) {}),
	"cells":      shelved(cellBug{}),
	"clocks":     clocked(cellBug{}),
	"refusing":   refusing(refuseBug{}),
	"late":       late(lateBug{}),
	"network":    networked(false),
	"distant":    distant(callersBug{}),
	"members":    membered(memberBug{}),
	"sharing":    sharing(sharedBug{}),
	"voting":     voting(voteBug{}),
}

// on makes a harness of one memory store whose clients are wrapped.
func on(wrap func(store) driver.Backend) func() conformance.Harness {
	return claiming(nil, wrap)
}

// claiming is on for a driver that claims more than the memory store does.
func claiming(more driver.Claims, wrap func(store) driver.Backend) func() conformance.Harness {
	claims := slices.Concat(memory.Claims, more)
	return func() conformance.Harness {
		shared := memory.NewStore()
		return conformance.Harness{
			Open: func(conformance.TB) driver.Backend {
				var s store = shared.Open().(store)
				if more != nil {
					s = claimer{s, claims}
				}
				return wrap(s)
			},
			Claims: claims,
		}
	}
}

// claimer has the claims that it is given.
type claimer struct {
	store
	claims driver.Claims
}

func (c claimer) Info() driver.Info {
	info := c.store.Info()
	info.Claims = c.claims
	return info
}

// examined is what came of one driver.
type examined struct {
	report *conformance.Report
	err    error
	passes int // how often it was examined
}

// examine runs cases against a driver; nil runs all.
func examine(ctx context.Context, h conformance.Harness, ids []string) (x examined) {
	s := &conformance.Suite{
		Harness: h,
		Only:    func(c conformance.Case) bool { return ids == nil || slices.Contains(ids, c.ID) },
	}
	x.report, x.err = s.Run(ctx)
	return x
}

// killed reports whether every case failed.
func (x examined) killed() bool {
	return x.err == nil && x.report.Count(conformance.Fail) == len(x.report.Results)
}

// attentive is how long a process may go unscheduled and still judge a millisecond.
const attentive = 5 * time.Millisecond

// mostPasses is how often a mutant that survives on a machine that is too slow is examined.
const mostPasses = 10

// kill runs the killers of m. Cases are lenient towards a machine that did not let them run, and so may
// miss a bug then: such a run tells nothing, and is repeated.
func (m mutant) kill(ctx context.Context) examined {
	for n := 1; ; n++ {
		x := examine(ctx, m.new(), m.killers)
		x.passes = n
		if n == mostPasses || x.err != nil || x.killed() || x.report.Env.Starved < attentive {
			return x
		}
	}
}

// examineAll calls fn for each of n drivers, some at once: most of the time is spent
// waiting. Parallel subtests would be as many at once as there are processors.
func examineAll(n, atOnce int, fn func(i int)) {
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			fn(i)
			<-slots
		})
	}
	wg.Wait()
}

// leaked ends the goroutines that a mutant has left.
var leaked = make(chan struct{})

func endLeaks() {
	close(leaked)
	leaked = make(chan struct{})
}

func TestMutantsAreKilled(t *testing.T) {
	t.Cleanup(endLeaks)
	all := allMutants()
	if len(all) < 40 {
		t.Errorf("saw %d mutants, want at least 40", len(all))
	}
	results := make([]examined, len(all))
	examineAll(len(all), 8, func(i int) { results[i] = all[i].kill(t.Context()) })
	again := 0
	for _, r := range results {
		again += r.passes - 1
	}
	t.Logf("%d mutants, examined %d times more because this process was not scheduled", len(all), again)
	for i, m := range all {
		t.Run(m.name, func(t *testing.T) {
			r := results[i]
			if r.err != nil {
				t.Fatal(r.err)
			}
			t.Logf("pass %d, %v", r.passes, r.report.Took)
			if len(m.killers) == 0 || len(r.report.Results) != len(m.killers) {
				t.Fatalf("%d of the cases %v ran, want all of them, and at least one", len(r.report.Results), m.killers)
			}
			for _, res := range r.report.Results {
				if res.Outcome != conformance.Fail {
					t.Errorf("%s: %s, want a failure: the mutant survives (this process was not scheduled for %v at a time)", res.FullName(), res.Outcome, r.report.Env.Starved)
				}
			}
		})
	}
}

// A mutant dies of its bug, not of how it is made: the same driver without the bug passes all
// that kills it.
func TestSoundDriversSurvive(t *testing.T) {
	var names []string
	killers := make(map[string][]string)
	for _, m := range allMutants() {
		if soundDrivers[m.sound] == nil {
			t.Fatalf("mutant %q: there is no sound driver %q", m.name, m.sound)
		}
		if killers[m.sound] == nil {
			names = append(names, m.sound)
		}
		killers[m.sound] = append(killers[m.sound], m.killers...)
	}
	results := make([]examined, len(names))
	examineAll(len(names), 8, func(i int) {
		results[i] = examine(t.Context(), soundDrivers[names[i]](), killers[names[i]])
	})
	for i, name := range names {
		t.Run(strings.TrimSpace("sound "+name), func(t *testing.T) {
			r := results[i]
			if r.err != nil {
				t.Fatal(r.err)
			}
			for _, res := range r.report.Results {
				if res.Outcome != conformance.Pass {
					t.Errorf("%s of a driver without a bug, want it to pass: %s\n%s", res.Outcome, res.Reason, (&conformance.Suite{}).Explain(res))
				}
			}
		})
	}
}

func TestMutantsAreNamedOnce(t *testing.T) {
	cases := make(map[string]bool)
	for _, c := range conformance.Cases() {
		cases[c.ID] = true
	}
	seen := make(map[string]bool)
	for _, m := range allMutants() {
		if m.name == "" || m.bug == "" || seen[m.name] || strings.Contains(m.name+m.bug, "|") {
			t.Errorf("mutant %q: its name is missing or repeated, or its bug is not told", m.name)
		}
		seen[m.name] = true
		for _, id := range m.killers {
			if !cases[id] {
				t.Errorf("mutant %q: there is no case %s", m.name, id)
			}
		}
	}
}
