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

func crowdCases() []Case {
	return []Case{
		{
			ID: "LOCK-234", Name: "crowd-in-lock-returns-at-close", Clause: "L11", run: crowdInLock, bound: 3 * time.Minute, alone: true,
			Why:    "a Close that ends only the calls it knows, or wakes one of those that wait, strands the rest for ever (743 of 1000)",
			Remedy: "end every call at Close, those that wait for a connection, too",
		}, {
			ID: "LIMIT-234", Name: "crowd-of-asks-returns-and-keeps-the-bound", Clause: "R1", run: crowdOfAsks, bound: 3 * time.Minute, alone: true,
			Why:    "a limiter meets its crowd when the service is in trouble; callers that wait for the square of the crowd, or for ever, make it worse",
			Remedy: "serve the calls in line in batches or side by side, count each once, and let none hold up those behind it",
		}, {
			ID: "LIMIT-235", Name: "crowd-of-asks-returns-at-close", Clause: "L11", run: crowdAtClose, bound: 3 * time.Minute, alone: true,
			Why:    "callers without a deadline end with the client, or never",
			Remedy: "end every call at Close, those that wait for a connection, too",
		},
	}
}

const (
	// crowdKeys are fewer than the callers by far, so that they meet.
	crowdKeys = 50
	// standstill is for how long nobody of a crowd returns when it is stuck. A store that is slow, on a
	// machine that is busy, answers somebody in that time.
	standstill = 10 * time.Second
)

// crowdSize is how many call at once.
func (e *env) crowdSize() int {
	if e.r.suite.Fast {
		return 500
	}
	return 5000
}

// crowd is many goroutines in calls of one client.
type crowd struct {
	*env
	n        int
	returned atomic.Int64
	done     chan struct{}
}

// gather starts n goroutines.
func (e *env) gather(n int, call func(i int)) *crowd {
	c := &crowd{env: e, n: n, done: make(chan struct{})}
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

// reach waits until so many have returned.
func (c *crowd) reach(n int64) {
	last, since := int64(-1), time.Now()
	for c.returned.Load() < n {
		if now := c.returned.Load(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > standstill+c.starved(since) {
			c.Fatalf("a crowd of %d: saw %d return, and nobody for %v", c.n, last, standstill)
		}
		c.pass(time.Millisecond)
	}
}

// disperse waits until all have returned.
func (c *crowd) disperse(what string) {
	start := time.Now()
	c.reach(int64(c.n))
	<-c.done
	c.measure(what, time.Since(start))
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

func crowdInLock(e *env) {
	c, rival := e.client(), e.locker()
	key := func(i int) string { return e.key(fmt.Sprint(i % crowdKeys)) }
	var granted atomic.Int64
	crowd := e.gather(e.crowdSize(), func(i int) {
		l, err := c.Lock(context.Background(), key(i), coord.TTL(e.long))
		if err != nil {
			e.ended("Lock", err)
			return
		}
		granted.Add(1)
		if err := l.Unlock(context.Background()); err != nil {
			e.ended("Unlock", err)
		}
	})
	crowd.reach(int64(crowd.n / 20))
	if err := c.Close(); err != nil {
		e.Errorf("Close amid a crowd: saw %v, want nil", err)
	}
	crowd.disperse("from Close to the last return from Lock")
	e.count("locks granted in a crowd", int(granted.Load()))
	for i := range crowdKeys {
		e.free(rival, key(i), soon, "after its crowd has gone")
	}
}

// crowdOfAsks lets nine of ten have a permit.
func crowdOfAsks(e *env) {
	n := e.crowdSize()
	limit := coord.Per(n/crowdKeys*9/10, year)
	c := e.client()
	var granted [crowdKeys]atomic.Int64
	var failed atomic.Int64
	// A client library gives up a call that the machine did not get to. Then permits may be spent unseen.
	answered := func(op string, err error) {
		if err != nil {
			failed.Add(1)
			e.wantError(err, op+" in a crowd", coord.ErrUnavailable)
		}
	}
	e.gather(n, func(i int) {
		r, err := c.Allow(context.Background(), e.key(fmt.Sprint(i%crowdKeys)), limit)
		answered("Allow", err)
		granted[i%crowdKeys].Add(int64(r.Granted))
	}).disperse("a crowd in Allow")
	for i := range granted {
		got := int(granted[i].Load())
		e.admitted(got, limit.Rate)
		if got > limit.Rate || got < limit.Rate && failed.Load() == 0 {
			e.Errorf("permits of %v granted to a crowd of %d: saw %d, want %d", limit, n/crowdKeys, got, limit.Rate)
		}
	}
	e.count("asks of a crowd that failed", int(failed.Load()))
	if !e.info.Claims.Has(driver.AtomicMulti) {
		return
	}
	e.gather(n, func(i int) {
		_, err := c.AllowAll(context.Background(),
			coord.Demand{Key: e.key(fmt.Sprint("other ", i/crowdKeys%crowdKeys)), Limit: limit, N: 1},
			coord.Demand{Key: e.key(fmt.Sprint("one ", i%crowdKeys)), Limit: limit, N: 1})
		answered("AllowAll", err)
	}).disperse("a crowd in AllowAll")
}

func crowdAtClose(e *env) {
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
	crowd := e.gather(e.crowdSize(), func(i int) {
		if err := calls[i%len(calls)](context.Background(), e.key(fmt.Sprint(i%crowdKeys))); err != nil {
			e.ended("a call on a limit", err)
		}
	})
	crowd.reach(int64(crowd.n / 20))
	if err := c.Close(); err != nil {
		e.Errorf("Close amid a crowd: saw %v, want nil", err)
	}
	crowd.disperse("from Close to the last return from a limit")
}
