package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func retryCases() []Case {
	return []Case{
		{
			ID: "LIMIT-20", Name: "retry-after-is-honest", Clause: "R2", run: retryAfter,
			Why:    "a retry time that is too short makes callers poll, one that is too long wastes the limit (mennanov said 1s for 100ms)",
			Remedy: "compute RetryAfter on the store's clock from the state that denied, rounded up to what the store can tell",
		}, {
			ID: "LIMIT-21", Name: "reset-after-is-exact", Clause: "R2", run: resetAfter,
			Why:    "the header RateLimit promises callers when their quota is whole again",
			Remedy: "compute ResetAfter from the state after the grant, rounded up and not beyond",
		}, {
			ID: "LIMIT-22", Name: "impossible-ask-is-an-error", Clause: "R2", run: impossible,
			Why:    "an ask above the burst with a finite retry time retries for ever (redis_rate)",
			Remedy: "answer a denial without RetryAfter, and write nothing, when an ask exceeds the limit's maximum",
		}, {
			ID: "LIMIT-23", Name: "invalid-ask-is-refused", Clause: "R2", run: invalidAsk,
			Why:    "a negative ask mints permits (x/time/rate, redis_rate), a rate of zero divides by it (redis_rate#110)",
			Remedy: "refuse with ErrInvalid before anything is written",
		},
	}
}

// guardTime is how long before an instant a probe is sent that must be answered before it. The later attempts of a case
// send it earlier, up to maxGuard, for a store that answers slowly: what they see is less exact.
const guardTime, maxGuard = 6 * time.Millisecond, 100 * time.Millisecond

// mostAttempts is how often a case aims at an instant that a machine may miss.
const mostAttempts = 8

// passUntil lets time go by until t.
func (e *env) passUntil(t time.Time) {
	if d := time.Until(t); d > 0 {
		e.pass(d)
	}
}

// attempts calls judge until it has seen a probe answered before its instant. In fake time the first is.
func (e *env) attempts(what string, judge func(key string, guard time.Duration) bool) {
	guard := guardTime
	for i := range mostAttempts {
		if judge(e.key(fmt.Sprint(what, i)), guard) {
			return
		}
		if i >= 3 {
			guard = min(2*guard, maxGuard)
		}
	}
	if e.timely() {
		e.Errorf("%s: saw no probe answered a millisecond before the instant in %d attempts, want one", what, mostAttempts)
	}
}

// probed asks a moment before what was promised of an answer is due, and when it is. It reports whether the first of them was
// answered in time.
func (e *env) probed(of asked, due, guard time.Duration, ask func() asked) (before, after asked, judged bool) {
	early := of.sent.Add(due - time.Millisecond)
	e.passUntil(early.Add(-guard))
	before = ask()
	e.passUntil(of.came.Add(due))
	return before, ask(), !before.came.After(early)
}

func retryAfter(e *env) {
	l := e.open()
	limits := algorithms(10, 250*time.Millisecond)
	limits["token bucket"] = normal(driver.Limit{Rate: 10, Per: time.Second, Burst: 10})
	for name, limit := range limits {
		e.attempts(name, func(key string, guard time.Duration) bool {
			ask := func() asked { return e.ask(l, key, limit, 1, 1) }
			e.grantedN(e.ask(l, key, limit, 1, 10), 10, "a fresh key under "+name)
			denied := ask()
			if denied.N > 0 {
				return false // time has passed, or a window has turned
			}
			probe, late, judged := e.probed(denied, denied.RetryAfter, guard, ask)
			if probe.N > 0 && judged {
				e.Errorf("%s: denied with RetryAfter %v, saw a permit granted %v earlier, want none until a millisecond before", name, denied.RetryAfter, denied.sent.Add(denied.RetryAfter).Sub(probe.came))
			}
			if probe.N > 0 && !judged {
				return false
			}
			e.grantedN(late, 1, "an ask of a lone caller after RetryAfter, under "+name)
			return judged
		})
	}
}

func resetAfter(e *env) {
	l := e.open()
	for name, limit := range algorithms(10, 250*time.Millisecond) {
		e.attempts(name, func(key string, guard time.Duration) bool {
			taken := e.ask(l, key, limit, 5, 5)
			e.grantedN(taken, 5, "5 of a fresh key under "+name)
			probe, late, judged := e.probed(taken, taken.ResetAfter, guard, func() asked { return e.ask(l, key, limit, 0, 0) })
			if judged && probe.Remaining == 10 {
				e.Errorf("%s: ResetAfter %v, saw the whole capacity back %v earlier", name, taken.ResetAfter, taken.sent.Add(taken.ResetAfter).Sub(probe.came))
			}
			if late.Remaining != 10 || late.ResetAfter != 0 {
				e.Errorf("%s after ResetAfter: saw %d left and ResetAfter %v, want exactly 10 and 0", name, late.Remaining, late.ResetAfter)
			}
			return judged
		})
	}
}

func impossible(e *env) {
	c := e.client()
	for name, limit := range still(10) {
		key := e.key(name)
		_, err := c.AllowN(e.ctx, key, limit, 11)
		e.wantError(err, "11 of 10 under "+name, coord.ErrExceedsBurst)
		var full *coord.Error
		if errors.As(err, &full) && full.RetryAfter != 0 {
			e.Errorf("RetryAfter of an impossible ask under %s: saw %v, want none", name, full.RetryAfter)
		}
		start := time.Now()
		e.wantError(c.WaitN(e.ctx, key, limit, 11), "Wait for 11 of 10 under "+name, coord.ErrExceedsBurst)
		e.inTime(start, prompt, "Wait for 11 of 10 under "+name)
		r, err := c.AllowAtMost(e.ctx, key, limit, 1000)
		e.noError(err, "AllowAtMost of 1000 under "+name)
		if r.Granted != 10 || !r.Allowed {
			e.Errorf("AllowAtMost of 1000 under %s, after impossible asks: saw %d granted, want all 10", name, r.Granted)
		}
	}
}

func invalidAsk(e *env) {
	c, key, limit := e.client(), e.key("k"), driver.Limit{Rate: 5, Per: time.Hour}
	for _, n := range []int{-1, math.MinInt} {
		_, err := c.AllowN(e.ctx, key, limit, n)
		e.wantError(err, "AllowN of a negative number", coord.ErrInvalid)
		_, err = c.AllowAtMost(e.ctx, key, limit, n)
		e.wantError(err, "AllowAtMost of a negative number", coord.ErrInvalid)
		e.wantError(c.WaitN(e.ctx, key, limit, n), "WaitN of a negative number", coord.ErrInvalid)
	}
	for _, bad := range []driver.Limit{
		{},
		{Rate: 0, Per: time.Second},
		{Rate: -1, Per: time.Second},
		{Rate: 1},
		{Rate: 1, Per: -time.Second},
		{Rate: 1, Per: time.Microsecond},
		{Rate: 1, Per: time.Second + 1},
		{Rate: 1, Per: 2 * year},
		{Rate: driver.MaxRate + 1, Per: time.Second},
		{Rate: 1, Per: time.Second, Burst: -1},
		{Rate: 1, Per: time.Second, Burst: 1, Algorithm: driver.SlidingWindow},
		{Rate: 1, Per: time.Second, Algorithm: 99},
		{Rate: 1, Per: year, Burst: driver.MaxRate},
	} {
		for what, call := range map[string]func(context.Context) error{
			"Allow": func(ctx context.Context) error { _, err := c.Allow(ctx, key, bad); return err },
			"Peek":  func(ctx context.Context) error { _, err := c.Peek(ctx, key, bad); return err },
			"Wait":  func(ctx context.Context) error { return c.Wait(ctx, key, bad) },
			"Reset": func(ctx context.Context) error { return c.Reset(ctx, key, bad) },
		} {
			e.wantError(call(e.ctx), what+" under the limit "+bad.String(), coord.ErrInvalid)
		}
	}
	r, err := c.Peek(e.ctx, key, limit)
	e.noError(err, "Peek")
	if r.Remaining != 5 {
		e.Errorf("Remaining after invalid asks: saw %d, want all 5", r.Remaining)
	}
}
