package faults

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

var (
	seed  = flag.Uint64("seed", 0, "the seed of the first round; 0 takes one at random")
	lasts = flag.Duration("for", 0, "break each store again and again for so long; 0 makes each of its faults once")
)

// stores is how many are broken at a time. A run waits most of the time.
var stores = make(chan struct{}, 2)

// nemesis is what breaks a store.
type nemesis struct {
	url string
	// keeps says that the store has all that it acknowledged after each fault, though others of its kind may not.
	keeps  bool
	faults []fault
}

// fault is one thing that goes wrong, and how it ends. Either may be nil.
type fault struct {
	name         string
	begins, ends func()
	lasts        time.Duration
}

// run breaks the store that start gives, in one way after the other, while clients play.
func run(t *testing.T, start func() nemesis) {
	t.Helper()
	t.Parallel()
	stores <- struct{}{}
	t.Cleanup(func() { <-stores })
	n := start()
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	for round, began := uint64(0), time.Now(); round == 0 || time.Since(began) < *lasts && !t.Failed(); round++ {
		for _, f := range n.faults {
			t.Run(f.name, func(t *testing.T) { n.play(t, f, first+round) })
		}
	}
}

// play is the histories over one fault.
func (n nemesis) play(t *testing.T, f fault, seed uint64) {
	open := func(tb conformance.TB) driver.Backend {
		b, _, err := driver.Open(tb.Context(), n.url)
		if err != nil {
			tb.Fatalf("Open: %v", err)
		}
		return b
	}
	claims := n.claims(t)
	name, _, _ := strings.Cut(t.Name(), "#") // which counts the rounds
	s := conformance.Suite{
		Harness: conformance.Harness{
			Open: open, WorkerURL: n.url, Claims: claims,
			Faults: &conformance.Faults{Failover: func(conformance.TB) { f.happen() }},
		},
		Only: func(c conformance.Case) bool {
			return slices.Contains(c.Hooks, conformance.HookFailover) && (c.Proves == "" || claims.Has(c.Proves))
		},
		Seed:  seed,
		Alone: fmt.Sprintf("go test ./internal/repo/faults -run '%s' -seed {seed}", name),
	}
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.Line())
	for _, res := range r.Results {
		switch res.Outcome {
		case conformance.Fail:
			t.Error(s.Explain(res))
		case conformance.Pass:
			for _, m := range res.Messages {
				t.Log(m.Text)
			}
		default:
			t.Errorf("%s is %s: %s", res.ID, res.Outcome, res.Reason)
		}
	}
}

// claims are those of the store, and what its configuration adds.
func (n nemesis) claims(t *testing.T) driver.Claims {
	b, _, err := driver.Open(t.Context(), n.url)
	if err != nil {
		t.Fatal(err)
	}
	claims := slices.Clone(b.Info().Claims)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if n.keeps && !claims.Has(driver.DurableFailover) {
		claims = append(claims, driver.DurableFailover)
	}
	return claims
}

func (f fault) happen() {
	if f.begins != nil {
		f.begins()
	}
	time.Sleep(f.lasts) // others take over, and leases end meanwhile, or do not
	if f.ends != nil {
		f.ends()
	}
}
