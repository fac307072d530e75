package conformance_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// store is the memory store, of which a mutant overrides a part.
type store = driver.Backend

// byTake makes TakeOne of Take, which mutants override.
type byTake struct{ store }

func (b byTake) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(b.Take(ctx, key, l, []driver.Ask{a}))
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

// allMutants is the table, by subject.
func allMutants() []mutant {
	return slices.Concat(leaseMutants, ownerMutants, tokenMutants, queueMutants, lossMutants, operatorMutants,
		keyMutants, callMutants, claimMutants, boundMutants, answerMutants, reserveMutants, chargeMutants, cellMutants, refuseMutants, lateMutants, memberMutants, severalKeysMutants, electionMutants, sharedMutants, conditionMutants, voteMutants,
		callerMutants, driverMutants, clientMutants)
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
	"server":     driving(func(*layer, time.Duration) {}),
	"clients":    bugged(func(*layer) {}),
}

// on makes a harness of one memory store whose clients are wrapped.
func on(wrap func(store) driver.Backend) func() conformance.Harness {
	return claiming(nil, wrap)
}

// claiming is on for a driver that claims more than the memory store does.
func claiming(more driver.Claims, wrap func(store) driver.Backend) func() conformance.Harness {
	claims := slices.Concat(mutantClaims, more)
	return func() conformance.Harness {
		shared := memory.NewStore()
		return conformance.Harness{
			Open: func(conformance.TB) driver.Backend {
				return byTake{wrap(&claimer{shared.Open(), claims})}
			},
			Claims: claims,
		}
	}
}

// mutantClaims are those of the memory store, and what it can do besides.
var mutantClaims = append(slices.Clone(memory.Claims), driver.MinHoldAfterExit)

// claimer has the claims that it is given.
type claimer struct {
	store
	claims driver.Claims
}

func (c *claimer) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(c.Take(ctx, key, l, []driver.Ask{a}))
}

func (c *claimer) Info() driver.Info {
	info := c.store.Info()
	info.Claims = c.claims
	return info
}

// examine runs cases against a driver in a bubble of fake time; nil runs all.
func examine(t *testing.T, open func() conformance.Harness, ids []string, seed uint64) (r *conformance.Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &conformance.Suite{
			Harness: open(),
			Only:    func(c conformance.Case) bool { return ids == nil || slices.Contains(ids, c.ID) },
			Seed:    seed,
		}
		s.Harness.FakeTime = true
		var err error
		if r, err = s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * forever)
	})
	return r
}

// forever is when what a mutant leaves behind ends: after all cases, and before its bubble.
const forever = 24 * time.Hour

func TestMutantsAreKilled(t *testing.T) {
	for _, m := range allMutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			r := examine(t, m.new, m.killers, 1)
			if len(m.killers) == 0 || len(r.Results) != len(m.killers) {
				t.Fatalf("%d of the cases %v ran, want all of them, and at least one", len(r.Results), m.killers)
			}
			for _, res := range r.Results {
				if res.Outcome != conformance.Fail {
					t.Errorf("%s: %s, want a failure: the mutant survives", res.FullName(), res.Outcome)
				}
			}
		})
	}
}

// A mutant dies of its bug, not of how it is made: the same driver without the bug passes all
// that kills it.
func TestSoundDriversSurvive(t *testing.T) {
	killers := make(map[string][]string)
	for _, m := range allMutants() {
		if soundDrivers[m.sound] == nil {
			t.Fatalf("mutant %q: there is no sound driver %q", m.name, m.sound)
		}
		killers[m.sound] = append(killers[m.sound], m.killers...)
	}
	for name, ids := range killers {
		t.Run(strings.TrimSpace("sound "+name), func(t *testing.T) {
			t.Parallel()
			for _, res := range examine(t, soundDrivers[name], ids, 1).Results {
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
