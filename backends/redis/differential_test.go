package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// differ is a random walk of one key, in Go and in Lua, at the same times.
type differ struct {
	rnd    *rand.Rand
	key    string
	limit  func() driver.Limit
	now    int64
	wait   time.Duration
	states map[string]*limits.State // by limits.Name
	ids    []string
	plain  bool // no ask has an id
}

// expectation is a script call and what Go answered to the same question.
type expectation struct {
	what string
	call redis.Cmder
	got  func() any // what the call was answered
	want any
}

func (d *differ) step(t *testing.T, ctx context.Context, b *backend) expectation {
	l, err := d.limit().Normal()
	if err != nil {
		t.Fatal(err)
	}
	d.advance(l)
	switch {
	case d.rnd.IntN(40) == 0:
		return d.take(ctx, b, l)
	case d.rnd.IntN(5) == 0 && len(d.ids) > 0:
		return d.refund(ctx, b, l)
	case d.rnd.IntN(8) == 0:
		return d.charge(ctx, b, l)
	}
	asks := make([]driver.Ask, 1+d.rnd.IntN(3)/2*(1+d.rnd.IntN(2)))
	for i := range asks {
		asks[i] = d.ask(l)
		if i == 0 && d.rnd.IntN(4) == 0 {
			asks = append(asks, d.alike(l)...)
		}
	}
	return d.take(ctx, b, l, asks...)
}

// state is the one that l counts on.
func (d *differ) state(l driver.Limit) *limits.State {
	name := limits.Name(l)
	if d.states == nil {
		d.states = make(map[string]*limits.State)
	}
	if d.states[name] == nil {
		d.states[name] = new(limits.State)
	}
	return d.states[name]
}

func (d *differ) take(ctx context.Context, b *backend, l driver.Limit, asks ...driver.Ask) expectation {
	want, _ := d.state(l).TakeEach(l, d.now, asks)
	for _, g := range want.Asks {
		if g.RetryAfter > 0 {
			d.wait = g.RetryAfter
		}
	}
	c, _ := b.newTake(ctx, d.key, l, asks...)
	c = at(ctx, c, d.now)
	what := fmt.Sprintf("%s: %v at %d: take %+v", d.key, l, d.now, asks)
	return expectation{what, c, func() any { return takenOf(packedReply(c.Val().(string)), l, asks) }, want}
}

// alike are requests of many callers, of which there is one answer for all.
func (d *differ) alike(l driver.Limit) []driver.Ask {
	n := 1 + d.rnd.IntN(min(l.Max(), 2+d.rnd.IntN(1000)))
	return slices.Repeat([]driver.Ask{{Min: n, N: n}}, 1+d.rnd.IntN(6))
}

func (d *differ) ask(l driver.Limit) driver.Ask {
	most := l.Max()
	if d.rnd.IntN(3) > 0 {
		most = min(most, 3)
	}
	var a driver.Ask
	a.N = d.rnd.IntN(most + 1)
	a.Min = d.rnd.IntN(a.N + 1)
	if l.Algorithm == driver.TokenBucket && d.rnd.IntN(2) == 0 {
		a.MaxDelay = time.Duration(d.rnd.Int64N(int64(l.Per) * 4))
		if d.rnd.IntN(20) == 0 {
			a.MaxDelay = 1<<63 - 1
		}
	}
	if !d.plain && d.rnd.IntN(2) == 0 {
		a.ID = fmt.Sprintf("id-%d", d.rnd.IntN(1000))
		d.ids = append(d.ids, a.ID)
	}
	return a
}

func (d *differ) refund(ctx context.Context, b *backend, l driver.Limit) expectation {
	id := d.ids[d.rnd.IntN(len(d.ids))]
	if len(d.ids) > 8 && d.rnd.IntN(3) > 0 {
		id = d.ids[len(d.ids)-1-d.rnd.IntN(8)]
	}
	n := 1 + d.rnd.IntN(4)
	s := d.state(l)
	changed := s.Refund(l, d.now, id, n)
	if changed && s.Expiry(l, d.now) == 0 {
		*s = limits.State{} // as the store drops it
	}
	want := []int64{0}
	if changed {
		want[0] = 1
	}
	c := at(ctx, b.newRefund(ctx, d.key, l, id, n), d.now)
	what := fmt.Sprintf("%s: %v at %d: refund %d of %s", d.key, l, d.now, n, id)
	return expectation{what, c, func() any { return c.Val() }, want}
}

func (d *differ) charge(ctx context.Context, b *backend, l driver.Limit) expectation {
	most := min(3*l.Max(), driver.MaxCharge)
	if d.rnd.IntN(2) == 0 {
		most = min(most, 5)
	}
	n := d.rnd.IntN(2*most+1) - most
	if d.rnd.IntN(50) == 0 {
		n = driver.MaxCharge - d.rnd.IntN(3)
	}
	if d.rnd.IntN(50) == 0 {
		n = d.rnd.IntN(3) - driver.MaxCharge
	}
	s := d.state(l)
	want, changed := s.Charge(l, d.now, n)
	if changed && s.Expiry(l, d.now) == 0 {
		*s = limits.State{} // as the store drops it
	}
	if want.RetryAfter > 0 && d.rnd.IntN(2) == 0 {
		d.wait = want.RetryAfter
	}
	c := at(ctx, b.newCharge(ctx, d.key, l, n), d.now)
	what := fmt.Sprintf("%s: %v at %d: charge %d", d.key, l, d.now, n)
	return expectation{what, c, func() any { return chargedOf(packedReply(c.Val().(string))) }, want}
}

// advance moves the clock, mostly by steps in which something happens.
func (d *differ) advance(l driver.Limit) {
	per := l.Per.Microseconds()
	switch d.rnd.IntN(12) {
	case 0, 1, 2:
	case 3, 4, 5, 6:
		d.now += d.rnd.Int64N(per/int64(min(l.Rate, 1000)) + 2)
	case 7, 8:
		d.now += d.wait.Microseconds()
	case 9:
		d.now += max(d.wait.Microseconds()-1, 0)
	case 10:
		d.now += d.rnd.Int64N(2*per) / int64(1+d.rnd.IntN(10))
	case 11:
		d.now -= d.rnd.Int64N(per) / int64(1+d.rnd.IntN(50))
		if d.rnd.IntN(20) == 0 { // a clock that was wrong is set right
			d.now -= 2 * per
			d.now -= d.rnd.Int64N(120_000_000)
		}
	}
	// Beyond that the clock is out of the range that both compute in.
	const year2200 = 7_258_118_400_000_000
	d.now = min(max(d.now, 0), year2200)
}

// walks are the kinds of limits that are walked through.
func walks(rnd *rand.Rand) []func() driver.Limit {
	of := func(l driver.Limit) func() driver.Limit { return func() driver.Limit { return l } }
	pers := []time.Duration{time.Millisecond, 1037 * time.Microsecond, time.Second, time.Minute, 24 * time.Hour, driver.MaxPer}
	var all []func() driver.Limit
	for _, per := range pers {
		for _, a := range []driver.Algorithm{driver.SlidingWindow, driver.FixedWindow, driver.TokenBucket} {
			for _, rate := range []int{1, 7, 100} {
				all = append(all, of(driver.Limit{Rate: rate, Per: per, Algorithm: a}))
			}
			all = append(all, func() driver.Limit { // one that changes on its account
				if a == driver.TokenBucket {
					return driver.Limit{Rate: 20, Per: per, Burst: 1 + rnd.IntN(20)}
				}
				return driver.Limit{Rate: 1 + rnd.IntN(20), Per: per, Algorithm: a}
			})
		}
	}
	return append(all,
		of(driver.Limit{Rate: driver.MaxRate, Per: driver.MaxPer}),
		of(driver.Limit{Rate: driver.MaxRate, Per: driver.MinPer, Burst: driver.MaxRate}),
		of(driver.Limit{Rate: driver.MaxRate - 11, Per: driver.MaxPer - time.Microsecond, Burst: 142}),
		of(driver.Limit{Rate: 1, Per: driver.MaxPer, Burst: 142}),
		of(driver.Limit{Rate: 3_000_000, Per: time.Hour, Burst: 1000}),
		of(driver.Limit{Rate: 1_000_000_000, Per: 24 * time.Hour, Burst: 5}),
		func() driver.Limit { // everything changes but the algorithm
			return driver.Limit{Rate: 1 + rnd.IntN(30), Per: pers[2+rnd.IntN(2)], Burst: 1 + rnd.IntN(10)}
		},
		func() driver.Limit { // bursts of all sizes
			return driver.Limit{Rate: 7, Per: time.Second, Burst: 1 << rnd.IntN(20)}
		},
	)
}

// TestScriptsEqualPackageLimits: the scripts answer what package limits does,
// to the microsecond, over more than 30,000 random steps, other ones in each run.
func TestScriptsEqualPackageLimits(t *testing.T) {
	t.Parallel()
	b := patient(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	const steps = 500
	total := 0
	for i, limit := range walks(rnd) {
		d := &differ{rnd: rnd, key: fmt.Sprintf("walk %d", i), limit: limit, now: 1_790_000_000_000_000 + rnd.Int64N(1e9), plain: i%3 == 0}
		total += steps
		compare(t, b, d, steps)
	}
	if total < 30_000 {
		t.Errorf("only %d steps", total)
	}
}

// patient gives a backend whose long pipelines may take a while.
func patient(t *testing.T) *backend {
	o := optionsOf(shared(t))
	o.ReadTimeout, o.WriteTimeout = time.Minute, time.Minute
	b := connectWith(t, o)
	injectClock(t, b)
	return b
}

// compare makes steps in one pipeline and checks every reply.
func compare(t *testing.T, b *backend, d *differ, steps int) {
	t.Helper()
	compareAll(t, b, steps, func() expectation { return d.step(t, t.Context(), b) })
}

// compareAll is compare for steps of any kind.
func compareAll(t *testing.T, b *backend, steps int, step func() expectation) {
	t.Helper()
	ctx := t.Context()
	pipe := b.client.Pipeline()
	var expected []expectation
	for range steps {
		e := step()
		expected = append(expected, e)
		if err := pipe.Process(ctx, e.call); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = pipe.Exec(ctx) // each call has its own error
	for i, e := range expected {
		if err := e.call.Err(); err != nil {
			t.Fatalf("%s: %v", e.what, err)
		}
		if got := e.got(); fmt.Sprint(got) != fmt.Sprint(e.want) {
			for _, before := range expected[max(0, i-5):i] {
				t.Logf("%s: %v", before.what, before.want)
			}
			t.Fatalf("%s\ngot  %v\nwant %v", e.what, got, e.want)
		}
	}
}

// TestScriptsEqualPackageLimitsManyReservations walks beyond the number of
// grants that are remembered.
func TestScriptsEqualPackageLimitsManyReservations(t *testing.T) {
	t.Parallel()
	b := patient(t)
	for _, l := range []driver.Limit{{Rate: 1000, Per: time.Second, Burst: 2}, {Rate: 5000, Per: time.Second}} {
		l, err := l.Normal()
		if err != nil {
			t.Fatal(err)
		}
		d := &differ{rnd: rand.New(rand.NewPCG(1, 2)), key: "many", limit: func() driver.Limit { return l }, now: 1_790_000_000_000_000}
		ctx := t.Context()
		pipe := b.client.Pipeline()
		var calls []expectation
		for i := range 1100 {
			a := driver.Ask{ID: fmt.Sprint("id-", i), Min: 1, N: 1}
			if l.Algorithm == driver.TokenBucket {
				a.MaxDelay = time.Minute
			}
			d.ids = append(d.ids, a.ID)
			e := d.take(ctx, b, l, a)
			calls = append(calls, e)
			if err := pipe.Process(ctx, e.call); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		for _, e := range calls {
			if got := e.got(); fmt.Sprint(got) != fmt.Sprint(e.want) {
				t.Fatalf("%s: got %v, want %v", e.what, got, e.want)
			}
		}
		for range 4 {
			compare(t, b, d, 100)
		}
	}
}
