package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func callerCases() []Case {
	return []Case{
		{
			ID: "LOCK-234", Name: "many-callers-of-lock-return-at-close", Clause: "L11", run: manyInLock, alone: true,
			Why:    "a Close that ends only the calls it knows, or wakes one of those that wait, strands the rest for ever (743 of 1000)",
			Remedy: "end every call at Close, those that wait for a connection, too",
		}, {
			ID: "LIMIT-234", Name: "many-requests-return-and-keep-the-bound", Clause: "R1", run: manyRequests, alone: true,
			Why:    "a limiter has most callers when the service is in trouble; if the wait grows with the square of their number, that makes it worse",
			Remedy: "serve the calls in the queue in batches or side by side, count each once, and let none hold up those behind it",
		}, {
			ID: "LIMIT-235", Name: "many-requests-return-at-close", Clause: "L11", run: manyAtClose, alone: true,
			Why:    "callers without a deadline end with the client, or never",
			Remedy: "end every call at Close, those that wait for a connection, too",
		}, {
			ID: "LIMIT-236", Name: "many-calls-at-a-hot-key-return-at-close-and-are-counted", Clause: "R5", run: manyAtHotKey, alone: true, Needs: driver.Claims{driver.AtomicMulti},
			Why:    "a limit that all requests share has many callers at once: what one reads and another writes meanwhile is lost",
			Remedy: "make the look at all limits and the debit of all one step, and end every call at Close",
		},
	}
}

const (
	// callerKeys are fewer than the callers by far, so that they meet.
	callerKeys = 50
	// standstill is for how long no caller returns when they are stuck. A store that is slow, on a
	// machine that is busy, answers somebody in that time.
	standstill = 10 * time.Second
)

// callersAtOnce is how many call at once. In fake time they all come at one moment, so that fewer meet as well.
func (e *env) callersAtOnce() int {
	switch {
	case e.r.suite.Fast:
		return 500
	case e.r.suite.Harness.FakeTime:
		return 1000
	}
	return 5000
}

// callers are many goroutines in calls of one client.
type callers struct {
	*env
	n        int
	returned atomic.Int64
	done     chan struct{}
}

// startMany starts n goroutines.
func (e *env) startMany(n int, call func(i int)) *callers {
	c := &callers{env: e, n: n, done: make(chan struct{})}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			call(i)
			c.returned.Add(1)
		})
	}
	go func() {
		wg.Wait()
		close(c.done)
	}()
	return c
}

// awaitReturns waits until so many have returned.
func (c *callers) awaitReturns(n int64) {
	last, since := int64(-1), time.Now()
	for c.returned.Load() < n {
		if now := c.returned.Load(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > c.bound(standstill) {
			c.Fatalf("%d callers: saw %d return, and nobody for %v", c.n, last, standstill)
		}
		c.pass(time.Millisecond)
	}
}

// awaitAll waits until all have returned.
func (c *callers) awaitAll() {
	c.awaitReturns(int64(c.n))
	<-c.done
}

// closeAmid closes the client of the callers when some have returned.
func (c *callers) closeAmid(client *coord.Client) {
	c.awaitReturns(int64(c.n / 20))
	c.gaveBack(client.Close(), "Close among many callers")
	c.awaitAll()
}

// ended fails the case unless err is what a call gives that its client's Close ended.
func (e *env) ended(op string, err error) {
	for _, kind := range []error{coord.ErrClosed, coord.ErrLost, coord.ErrUnavailable, coord.ErrUnknownOutcome, coord.ErrLimited} {
		if errors.Is(err, kind) {
			return
		}
	}
	e.Errorf("%s while its client closes: saw error %v, want one that says so", op, err)
}

func manyInLock(e *env) {
	e.abandons()
	c, rival := e.client(), e.open()
	key := func(i int) string { return e.key(fmt.Sprint(i % callerKeys)) }
	callers := e.startMany(e.callersAtOnce(), func(i int) {
		l, err := c.Lock(context.Background(), key(i), coord.TTL(e.long))
		if err != nil {
			e.ended("Lock", err)
			return
		}
		if err := l.Unlock(context.Background()); err != nil {
			e.ended("Unlock", err)
		}
	})
	callers.closeAmid(c)
	for i := range callerKeys {
		e.free(rival, key(i), soon, "after its callers have gone")
	}
}

// barrier holds up all calls on a store until all callers have come.
type barrier struct {
	came   atomic.Int64
	passed chan struct{}
}

func (e *env) behindBarrier() (*coord.Client, *barrier) {
	b, in := e.injected()
	bar := &barrier{passed: make(chan struct{})}
	in.faults.Hold(bar.passed)
	return e.clientOn(b), bar
}

// lift lets the calls pass when n have come, or are about to.
func (bar *barrier) lift(e *env, n int) {
	defer close(bar.passed)
	e.until(time.Minute, "all callers to call", func() bool { return bar.came.Load() == int64(n) })
}

// manyRequests has half of the callers use one key, and the others at fifty, and lets nine of ten have a permit.
// All come while the store does not answer: so as many as can wait in one line, on however slow a machine.
func manyRequests(e *env) {
	n := e.callersAtOnce()
	c, bar := e.behindBarrier()
	hot := n / 2
	demands := manyDemands(e, n, hot)
	var granted, failed [callerKeys + 1]atomic.Int64
	// A client library gives up a call that the machine did not get to. Then permits may be spent unseen.
	answered := func(op string, err error, failed *atomic.Int64) {
		if err != nil {
			failed.Add(1)
			e.wantError(err, op+" among many", coord.ErrUnavailable)
		}
	}
	callers := e.startMany(n, func(i int) {
		at := 0
		if i >= hot {
			at = 1 + i%callerKeys
		}
		bar.came.Add(1)
		r, err := c.Allow(context.Background(), demands[at].Key, demands[at].Limit)
		answered("Allow", err, &failed[at])
		granted[at].Add(int64(r.Granted))
	})
	bar.lift(e, n)
	callers.awaitAll()
	all := 0
	for i, ask := range demands {
		got, lost, rate := int(granted[i].Load()), int(failed[i].Load()), ask.Limit.Rate
		if got > rate || got+lost < rate {
			e.Errorf("permits of %v granted to %d callers, of which %d failed: saw %d, want %d", ask.Limit, ask.N, lost, got, rate)
		}
		all += lost
	}
	if !e.info.Claims.Has(driver.AtomicMulti) {
		return
	}
	limit := coord.Per(n/callerKeys*9/10, year)
	e.startMany(n, func(i int) {
		_, err := c.AllowAll(context.Background(),
			coord.Demand{Key: e.key(fmt.Sprint("other ", i/callerKeys%callerKeys)), Limit: limit, N: 1},
			coord.Demand{Key: e.key(fmt.Sprint("one ", i%callerKeys)), Limit: limit, N: 1})
		answered("AllowAll", err, new(atomic.Int64))
	}).awaitAll()
}

// manyDemands are the hot key, which N of the callers ask for, and fifty others.
func manyDemands(e *env, n, hot int) []coord.Demand {
	demands := []coord.Demand{{Key: e.key("hot"), Limit: coord.Per(hot*9/10, year), N: hot}}
	each := (n - hot) / callerKeys
	for i := range callerKeys {
		demands = append(demands, coord.Demand{Key: e.key(fmt.Sprint(i)), Limit: coord.Per(each*9/10, year), N: each})
	}
	return demands
}

// manyAtHotKey is many callers of AllowAll with one key that all share and one of fifty others. A tenth is denied
// by a limit of its own, and the client closes amid them.
func manyAtHotKey(e *env) {
	n := e.callersAtOnce()
	c, rival := e.client(), e.client()
	hot := coord.Demand{Key: e.key("hot"), Limit: coord.Per(n, year), N: 1}
	other := func(i int) coord.Demand {
		return coord.Demand{Key: e.key(fmt.Sprint(i % callerKeys)), Limit: coord.Per(n, year), N: 1}
	}
	empty := func(i int) coord.Demand {
		return coord.Demand{Key: e.key(fmt.Sprint("empty ", i%callerKeys)), Limit: coord.Per(1, year), N: 1}
	}
	for i := range callerKeys {
		_, err := rival.Allow(e.within(soon), empty(i).Key, empty(i).Limit)
		e.noError(err, "Allow of the only permit")
	}
	var granted, failed atomic.Int64
	callers := e.startMany(n, func(i int) {
		demands := []coord.Demand{hot, other(i)}
		if i%10 == 0 {
			demands[1] = empty(i / 10)
		}
		r, err := c.AllowAll(context.Background(), demands...)
		switch {
		case err != nil:
			failed.Add(1)
			e.ended("AllowAll", err)
		case !r[0].Allowed:
		case i%10 == 0:
			e.Errorf("AllowAll of a limit that is used up: saw it granted")
		default:
			granted.Add(1)
		}
	})
	callers.closeAmid(c)
	e.counted(rival, "the hot key", []coord.Demand{hot}, int(granted.Load()), int(failed.Load()))
	var others []coord.Demand
	for i := range callerKeys {
		others = append(others, other(i))
	}
	e.counted(rival, "the other keys", others, int(granted.Load()), int(failed.Load()))
}

// counted fails the case unless what was granted of all demands is counted, and at most what failed beside it.
func (e *env) counted(c *coord.Client, what string, demands []coord.Demand, granted, failed int) {
	spent := 0
	for _, d := range demands {
		r, err := c.Peek(e.within(soon), d.Key, d.Limit)
		e.noError(err, "Peek after many callers")
		spent += d.Limit.Rate - r.Remaining
	}
	if spent < granted {
		e.Errorf("permits counted of %s: saw %d, want at least the %d that were granted", what, spent, granted)
	}
	if spent > granted+failed {
		e.Errorf("permits counted of %s: saw %d, want at most the %d that were granted and %d that failed", what, spent, granted, failed)
	}
}

func manyAtClose(e *env) {
	c := e.client()
	calls := []func(ctx context.Context, key string) error{
		func(ctx context.Context, key string) error {
			_, err := c.Allow(ctx, key, coord.PerSecond(1_000_000))
			return err
		},
		func(ctx context.Context, key string) error { return c.Wait(ctx, key, coord.PerSecond(2)) },
	}
	if e.info.Claims.Has(driver.AtomicMulti) {
		calls = append(calls, func(ctx context.Context, key string) error {
			_, err := c.AllowAll(ctx, coord.Demand{Key: key, Limit: coord.PerSecond(1_000_000), N: 1})
			return err
		})
	}
	if e.info.Claims.Has(driver.Reserve) {
		calls = append(calls, func(ctx context.Context, key string) error {
			_, err := c.Reserve(ctx, key, coord.Limit{Rate: 1_000_000, Per: time.Second, Burst: 1_000_000}, 1)
			return err
		})
	}
	callers := e.startMany(e.callersAtOnce(), func(i int) {
		if err := calls[i%len(calls)](context.Background(), e.key(fmt.Sprint(i%callerKeys))); err != nil {
			e.ended("a call on a limit", err)
		}
	})
	callers.closeAmid(c)
}
