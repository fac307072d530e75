package conformance

import (
	"cmp"
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance/internal/runner"
	"github.com/coordgo/coord/driver"
)

// A case that could not judge something because this process was not scheduled runs again, up to three times. It passes
// if it judges then, and fails if it never does, or if the process was scheduled all the while. A case that fails on
// an overloaded machine runs once more, too, but not after a violation.
func TestInconclusive(t *testing.T) {
	keys := make(map[string]bool)
	for name, test := range map[string]struct {
		stalls, open int           // in how many runs the process stalls, and something is left open
		stall        time.Duration // for how long, instead of the least that counts
		fail, breach int           // in how many runs the case fails, and of these by a violation
		runs         int
		want         Outcome
		says         string
	}{
		"judges all":               {runs: 1, want: Pass},
		"stalls and judges all":    {stalls: 1, runs: 1, want: Pass},
		"inconclusive once":        {stalls: 1, open: 1, runs: 2, want: Pass},
		"inconclusive twice":       {stalls: 2, open: 2, runs: 3, want: Pass},
		"never conclusive":         {stalls: 9, open: 9, runs: 4, want: Fail, says: "inconclusive 4 times"},
		"leaves open without need": {open: 1, runs: 1, want: Fail, says: "never unscheduled"},
		"fails by a short stall":   {stalls: 1, fail: 1, runs: 1, want: Fail, says: "too late"},
		"fails on a busy machine":  {stalls: 1, stall: runner.Overload, fail: 1, runs: 2, want: Pass},
		"fails again, by itself":   {stalls: 2, stall: runner.Overload, fail: 2, runs: 2, want: Fail, says: "too late"},
		"violates on a busy one":   {stalls: 1, stall: runner.Overload, fail: 1, breach: 1, runs: 1, want: Fail, says: "two holders"},
		"second time without need": {stalls: 1, open: 2, runs: 2, want: Fail, says: "never unscheduled"},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			res := outcome(t, memoryHarness(), Case{run: func(e *env) {
				real := e.r.stalls
				defer func() { e.r.stalls = real }()
				e.r.stalls = &runner.StallDetector{} // of a machine that does nothing else
				runs++
				keys[e.key("k")] = true
				if runs <= test.stalls {
					for _, d := range []*runner.StallDetector{e.r.stalls, real} {
						d.Note(time.Now().Add(time.Minute), cmp.Or(test.stall, runner.Stall))
					}
				}
				if runs <= test.breach {
					e.Violationf("two holders")
				}
				if runs <= test.fail {
					e.Errorf("too late")
				}
				if runs <= test.open {
					e.notJudged("what run %d saw", runs)
				}
			}})
			text := ""
			for _, m := range res.Messages {
				text += m.Text + "\n"
			}
			if res.Outcome != test.want || runs != test.runs || !strings.Contains(text, test.says) {
				t.Errorf("saw %s after %d runs, saying %q; want %s after %d, saying %q", res.Outcome, runs, text, test.want, test.runs, test.says)
			}
			if again := res.Again != ""; again != (test.runs > 1) {
				t.Errorf("Again: %q", res.Again)
			}
		})
	}
	if len(keys) < 2 {
		t.Errorf("saw the keys %v, want other ones when a case runs again", keys)
	}
}

// A process that stands still between two looks of a Watch sees an older holder rightly: the lease of the newer one has
// ended meanwhile.
func TestWatchOfASlowProcess(t *testing.T) {
	t.Parallel()
	h := memoryHarness()
	h.election.watch = func(ctx context.Context, c *coord.Client, key string) iter.Seq2[coord.Holder, error] {
		return func(yield func(coord.Holder, error) bool) {
			for holder, err := range c.Watch(ctx, key) {
				if !yield(holder, err) {
					return
				}
				time.Sleep(time.Second) // the subject: longer than the lease
			}
		}
	}
	if res := outcome(t, h, Case{run: watchOrder}); res.Outcome != Pass {
		t.Errorf("%s: %v, want %s", res.Outcome, res.Messages, Pass)
	}
}

// unhurried is a store without queues whose attempts take their time before they reach it.
type unhurried struct {
	lockStore
}

type lockStore interface {
	driver.Backend
	driver.Locker
	driver.DelayedUnlocker
}

func (u unhurried) Info() driver.Info {
	info := u.lockStore.Info()
	info.Claims = unhurriedClaims
	return info
}

var unhurriedClaims = driver.Claims{driver.PerHoldTTL, driver.TokenProcess, driver.NoEviction, driver.ScopeProcess}

func (u unhurried) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	time.Sleep(200 * time.Millisecond) // the subject
	return u.lockStore.TryLock(ctx, key, r)
}

// An attempt that was under way when the holder unlocked is granted from when it was made.
func TestLeaseOfASlowAttempt(t *testing.T) {
	t.Parallel()
	shared := memory.NewStore()
	h := Harness{Claims: unhurriedClaims, Open: func(TB) driver.Backend { return unhurried{shared.Open().(lockStore)} }}
	for range 2 { // most attempts are under way at some unlock
		if res := outcome(t, h, Case{run: wholeLease}); res.Outcome != Pass {
			t.Errorf("%s: %v, want %s", res.Outcome, res.Messages, Pass)
		}
	}
}

// Cases that name their keys themselves find none of them taken when they run again.
func TestKeysWhenACaseRunsAgain(t *testing.T) {
	for name, test := range map[string]struct{ leave, run func(*env) }{
		"locks": {run: keysApart, leave: func(e *env) {
			for _, n := range nasty() {
				e.take(e.locker(), n+e.tag(), e.req(e.long))
			}
		}},
		"limits": {run: limitKeysApart, leave: limitKeysApart},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			res := outcome(t, memoryHarness(), Case{run: func(e *env) {
				if runs++; runs > 1 {
					test.run(e)
					return
				}
				e.r.stalls.Note(time.Now().Add(time.Minute), runner.Overload)
				test.leave(e)
				e.Errorf("too late")
			}})
			if res.Outcome != Pass || runs != 2 {
				t.Errorf("%s after %d runs: %v", res.Outcome, runs, res.Messages)
			}
		})
	}
}
