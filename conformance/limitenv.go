package conformance

import (
	"context"
	"slices"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/conformance/internal/history"
	"github.com/coordgo/coord/driver"
)

// normal completes a limit of the suite's own.
func normal(l driver.Limit) driver.Limit {
	n, err := l.Normal()
	if err != nil {
		panic(err) // a mistake in the suite
	}
	return n
}

// year is a period in which nothing refills during a case, nor does a window turn.
const year = history.Year

// algorithms are all there are, each as a limit of n permits per period.
func algorithms(n int, per time.Duration) map[string]driver.Limit {
	return map[string]driver.Limit{
		"sliding window": normal(driver.Limit{Rate: n, Per: per, Algorithm: driver.SlidingWindow}),
		"token bucket":   normal(driver.Limit{Rate: n, Per: per, Algorithm: driver.TokenBucket}),
		"fixed window":   normal(driver.Limit{Rate: n, Per: per, Algorithm: driver.FixedWindow}),
	}
}

// still are limits of n permits that stay spent throughout a case.
func still(n int) map[string]driver.Limit {
	all := algorithms(n, year)
	all["token bucket"] = normal(driver.Limit{Rate: 1, Per: year, Burst: min(n, 100), Algorithm: driver.TokenBucket})
	return all
}

// asked is the answer to one request, and when it was sent and came.
type asked struct {
	driver.Granted
	Remaining  int
	ResetAfter time.Duration
	sent, came time.Time
}

// ask makes one request on the driver.
func (e *env) ask(l driver.Limiter, key string, limit driver.Limit, least, n int) asked {
	return e.askFor(l, key, limit, driver.Ask{Min: least, N: n})
}

func (e *env) askFor(l driver.Limiter, key string, limit driver.Limit, a driver.Ask) asked {
	sent := time.Now()
	t, err := served(e, e.unsent, func(ctx context.Context) (driver.Taken, error) {
		return l.Take(ctx, key, limit, []driver.Ask{a})
	})
	came := time.Now()
	e.noError(err, "Take under "+limit.String())
	if len(t.Asks) != 1 {
		e.Fatalf("Take of one ask: saw %d answers, want 1", len(t.Asks))
	}
	g := t.Asks[0]
	switch {
	case g.N != 0 && (g.N < a.Min || g.N > a.N):
		e.Errorf("Take of %d to %d under %v: saw %d granted, want one of these or none", a.Min, a.N, limit, g.N)
	case g.N > 0 && g.RetryAfter != 0:
		e.Errorf("RetryAfter of a grant under %v: saw %v, want 0", limit, g.RetryAfter)
	case g.N == 0 && a.N > 0 && g.RetryAfter <= 0:
		e.Errorf("RetryAfter of a denial under %v: saw %v, want more than 0", limit, g.RetryAfter)
	case t.Remaining < 0 || t.Remaining > limit.Max():
		e.Errorf("Remaining under %v: saw %d, want 0 to %d", limit, t.Remaining, limit.Max())
	case t.ResetAfter < 0:
		e.Errorf("ResetAfter under %v: saw %v, want 0 or more", limit, t.ResetAfter)
	}
	return asked{g, t.Remaining, t.ResetAfter, sent, came}
}

// allows fails the case unless a client is allowed n, which are there.
func (e *env) allows(c *coord.Client, key string, limit driver.Limit, n int, what string) coord.Result {
	r, err := c.AllowN(e.within(soon), key, limit, n)
	e.noError(err, what)
	if !r.Allowed || r.Degraded != nil {
		e.Errorf("%s: saw %+v, want it allowed and not degraded", what, r)
	}
	return r
}

// grantedN fails the case unless a was granted n.
func (e *env) grantedN(a asked, n int, what string) {
	if a.N != n {
		e.Errorf("%s: saw %d permits granted, want %d", what, a.N, n)
	}
}

// spend is some permits that were granted between two instants.
type spend struct {
	from, to time.Time
	n        int
}

// mostWithin is the most permits that were certainly granted within some period of
// that length: each spend that counts began and ended in it.
func mostWithin(spends []spend, per time.Duration) int {
	most := 0
	for _, first := range spends {
		n, end := 0, first.from.Add(per)
		for _, s := range spends {
			if !s.from.Before(first.from) && !s.to.After(end) {
				n += s.n
			}
		}
		most = max(most, n)
	}
	return most
}

// overBucket is by how many permits a bucket was overdrawn in its worst period, at least; 0 or
// less if it may have kept its bound, Burst + Rate·W/Per in any time W.
func overBucket(spends []spend, l driver.Limit) int {
	worst := -l.Burst
	spends = slices.Clone(spends)
	slices.SortFunc(spends, func(a, b spend) int { return a.to.Compare(b.to) })
	for _, first := range spends {
		n := 0
		for _, s := range spends { // by their ends, so that the period only grows
			if s.from.Before(first.from) {
				continue
			}
			n += s.n
			// A store whose clock counts whole microseconds may have seen that much more time pass.
			refill := float64(l.Rate) * float64(s.to.Sub(first.from)+time.Microsecond) / float64(l.Per)
			worst = max(worst, n-l.Burst-int(refill))
		}
	}
	return worst
}
