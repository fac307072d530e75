package cas_test

import (
	"context"
	"testing"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

// A store that has only what it must: waiters poll. Cells are changed in one step, or read and swapped by clients of which
// another may be faster.
func TestConformance(t *testing.T) {
	for name, open := range map[string]func(*shelf) cas.Cells{
		"atomic":     func(s *shelf) cas.Cells { return runningCells{atomic{s}} },
		"optimistic": func(s *shelf) cas.Cells { return cas.Optimistic(runningVersions{distant{s}}) },
	} {
		t.Run(name, func(t *testing.T) {
			conformance.RunInFakeTime(t, func(conformance.TB) conformance.Harness {
				s := newShelf()
				return harness(func() cas.Cells { return open(s) })
			})
		})
	}
}

func harness(cells func() cas.Cells) conformance.Harness {
	info := driver.Info{
		Name: "shelf", MinTTL: 10 * time.Millisecond, TTLStep: time.Millisecond, MaxTTL: 24 * 366 * time.Hour,
		Claims: driver.Claims{
			driver.PerHoldTTL, driver.Inspect, driver.Break, driver.Shared, driver.TokenProcess, driver.NoEviction,
			driver.ServerClock, driver.Reserve, driver.Charge, driver.ScopeProcess,
		},
	}
	return conformance.Harness{
		Open:   func(conformance.TB) driver.Backend { return cas.New(info, cells()) },
		Claims: info.Claims,
	}
}

// run makes the shelf's clock the time.
func (s *shelf) run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = time.Now()
}

// runningCells are cells of a shelf whose clock runs.
type runningCells struct{ atomic }

func (r runningCells) Update(ctx context.Context, n cas.Name, fn cas.Func) error {
	r.run()
	return r.atomic.Update(ctx, n, fn)
}

// runningVersions are versions of a shelf whose clock runs.
type runningVersions struct{ distant }

func (r runningVersions) Load(ctx context.Context, n cas.Name) (cas.Loaded[int], error) {
	r.run()
	return r.distant.Load(ctx, n)
}

func (r runningVersions) CompareAndSwap(ctx context.Context, n cas.Name, loaded int, c cas.Change) (bool, error) {
	r.run()
	return r.distant.CompareAndSwap(ctx, n, loaded, c)
}
