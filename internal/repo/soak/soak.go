// Package soak runs the conformance suite on drivers that keep the contract, over and over: a
// suite that ever fails one of them is worth nothing to the author of another. Its tests also count what
// many keys leave behind in each store.
package soak

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coordgo/coord/conformance"
)

// Store is one store to soak.
type Store struct {
	Name string
	// Passes of the suite in all, shared by the harnesses. The faults of one do not reach the server of another.
	Passes    int
	Harnesses []conformance.Harness
	// Only selects cases, nil all of a fast pass.
	Only func(conformance.Case) bool
}

// Run soaks a store until its passes are done or ctx ends. The error is about a harness.
func (s Store) Run(ctx context.Context) (*Result, error) {
	r := &Result{Store: s.Name, Failures: []Failure{}}
	start := time.Now()
	var mu sync.Mutex
	var errs []error
	next := 0
	take := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		if next == s.Passes || ctx.Err() != nil || len(errs) > 0 {
			return 0
		}
		next++
		return next
	}
	var wg sync.WaitGroup
	for _, h := range s.Harnesses {
		wg.Go(func() {
			for n := take(); n > 0; n = take() {
				suite := &conformance.Suite{Harness: h, Fast: true, Only: s.Only}
				report, err := suite.Run(ctx)
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				} else if ctx.Err() == nil { // else it was cut off
					r.add(n, suite, report)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	r.Took = time.Since(start)
	return r, errors.Join(errs...)
}

// add counts one pass.
func (r *Result) add(n int, s *conformance.Suite, report *conformance.Report) {
	r.Server = report.Store.Server
	r.Passes++
	passed := report.Count(conformance.Pass)
	r.Cases = max(r.Cases, passed+report.Count(conformance.Fail))
	r.Passed += passed
	r.Unsupported = max(r.Unsupported, report.Count(conformance.Unsupported))
	r.Unproven = max(r.Unproven, report.Count(conformance.Unproven))
	r.Longest = max(r.Longest, report.Took)
	r.Starved = max(r.Starved, report.Env.Starved)
	for _, res := range report.Results {
		if res.Outcome == conformance.Fail {
			r.Failures = append(r.Failures, Failure{Pass: n, Case: res.ID, Seed: report.Seed, Text: s.Explain(res)})
		}
	}
}
