package conformance_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// Bugs that grant more than the bound, or less than there is.
var boundMutants = []mutant{
	{
		name: "limit off by one", bug: "counted with <= where < was meant",
		new: limited(func(key string, l driver.Limit) (string, driver.Limit) {
			if l.Algorithm == driver.TokenBucket {
				l.Burst++
			} else {
				l.Rate++
			}
			return key, l
		}), killers: []string{"LIMIT-01", "LIMIT-05"},
	}, {
		name: "limit checked before it is counted", bug: "read in one step and written in another: once per concurrent reader too many",
		new: on(func(s store) driver.Backend { return twoStepTake{s} }), killers: []string{"LIMIT-01"},
	}, {
		name: "limit of one client", bug: "permits are counted in the client, and not in the store",
		new: apart(false), killers: []string{"LIMIT-01"},
	}, {
		name: "window that weighs", bug: "the last window counts by the share that is left of it: twice the limit after a late burst",
		new: counted(driver.SlidingWindow, weighing), killers: []string{"LIMIT-02"},
	}, {
		name: "window from the first use", bug: "each key has windows of its own, which are not aligned",
		new: counted(driver.FixedWindow, firstUse), killers: []string{"LIMIT-18"},
	}, {
		name: "window without end", bug: "INCR without EXPIRE: the first window is the last",
		new: limited(func(key string, l driver.Limit) (string, driver.Limit) {
			if l.Algorithm == driver.FixedWindow {
				l.Per = 366 * 24 * time.Hour
			}
			return key, l
		}), killers: []string{"LIMIT-04", "LIMIT-56"},
	}, {
		name: "bucket that overflows when idle", bug: "what refills is added without looking at the burst",
		new: counted(driver.TokenBucket, overflowing), killers: []string{"LIMIT-19"},
	}, {
		name: "bucket that drifts", bug: "each call rounds the refill down to whole permits and forgets the rest",
		new: counted(driver.TokenBucket, drifting), killers: []string{"LIMIT-07"},
	}, {
		name: "rate cut to 32 bits", bug: "thousandths of permits overflow (mennanov)",
		new: limited(func(key string, l driver.Limit) (string, driver.Limit) {
			l.Rate = max(1, int(uint32(l.Rate)*1000)/1000&0xffffff)
			return key, l
		}), killers: []string{"LIMIT-09"},
	}, {
		name: "state of one rate", bug: "the rate is part of the name: a limit that is tuned starts anew",
		new: limited(func(key string, l driver.Limit) (string, driver.Limit) {
			return fmt.Sprint(key, l.Rate, l.Burst), l
		}), killers: []string{"LIMIT-30"},
	}, {
		name: "debt that a burst caps", bug: "what a smaller burst is granted stores the debt as it sees it: a larger one is full again",
		new: counted(driver.TokenBucket, capping), killers: []string{"LIMIT-241"},
	}, {
		name: "two rates on one debt", bug: "the rate is not part of the name: a faster one drains the debt of a slower",
		new: counted(driver.TokenBucket, draining), killers: []string{"LIMIT-242"},
	}, {
		name: "two algorithms on one state", bug: "the algorithm is not part of the name",
		new: limited(func(key string, l driver.Limit) (string, driver.Limit) {
			if l.Algorithm == driver.FixedWindow {
				l.Algorithm = driver.SlidingWindow
			}
			return key, l
		}), killers: []string{"LIMIT-31"},
	}, {
		name: "reset of every key", bug: "Reset deletes by a pattern",
		new: on(func(s store) driver.Backend { return wideReset{s} }), killers: []string{"LIMIT-32"},
	}, {
		name: "reset of every account of a key", bug: "Reset deletes the key, under which the accounts of all limits are fields",
		new: on(func(s store) driver.Backend { return keyReset{s, new(sync.Map)} }), killers: []string{"LIMIT-32"},
	}, {
		name: "reset that resets nothing", bug: "Reset deletes a key that nothing is stored under",
		new: on(func(s store) driver.Backend { return idleReset{s} }), killers: []string{"LIMIT-32", "LIMIT-45"},
	},
}

// limited counts on another key, or under another limit.
func limited(as func(key string, l driver.Limit) (string, driver.Limit)) func() harness {
	return on(func(s store) driver.Backend { return otherLimit{s, as} })
}

type otherLimit struct {
	store
	as func(key string, l driver.Limit) (string, driver.Limit)
}

func (b otherLimit) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	key, l = b.as(key, l)
	return b.store.Take(ctx, key, l, asks)
}

// ownLimits counts in the client.
type ownLimits struct {
	store
	own store
}

func (b ownLimits) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	return b.own.Take(ctx, key, l, asks)
}

// twoStepTake debits, in its second step, without looking again.
type twoStepTake struct{ store }

func (b twoStepTake) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if l.Algorithm == driver.TokenBucket {
		return b.store.Take(ctx, key, l, asks)
	}
	t, err := b.store.Take(ctx, key, l, []driver.Ask{{}})
	if err != nil || t.Remaining < asks[0].N {
		return b.store.Take(ctx, key, l, asks)
	}
	time.Sleep(100 * time.Microsecond) // the way to the store and back
	l.Rate *= 100
	return b.store.Take(ctx, key, l, asks)
}

type wideReset struct{ store }

func (b wideReset) Reset(ctx context.Context, key string, l driver.Limit) error {
	if err := b.store.Reset(ctx, key+" other", l); err != nil {
		return err
	}
	return b.store.Reset(ctx, key, l)
}

type keyReset struct {
	store
	limits *sync.Map // those that were asked for
}

func (b keyReset) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	b.limits.Store(l, true)
	return b.store.Take(ctx, key, l, asks)
}

func (b keyReset) Reset(ctx context.Context, key string, _ driver.Limit) (err error) {
	b.limits.Range(func(l, _ any) bool {
		err = b.store.Reset(ctx, key, l.(driver.Limit))
		return err == nil
	})
	return err
}

type idleReset struct{ store }

func (b idleReset) Reset(ctx context.Context, key string, l driver.Limit) error {
	return b.store.Reset(ctx, "limit:"+key, l)
}

// counter is a limit of the suite's own: one key's, under one algorithm.
type counter struct {
	at     time.Time // of the first use, or of the last refill
	used   float64   // in this window; or in the bucket
	last   float64   // in the window before
	window int64
}

// counted counts one algorithm in another way. free says how many permits there are
// now, and when to come again.
func counted(a driver.Algorithm, free func(c *counter, l driver.Limit, now time.Time) (permits int, retry time.Duration)) func() harness {
	return func() harness {
		shared := &counters{byKey: make(map[string]*counter), algorithm: a, free: free}
		return on(func(s store) driver.Backend { return counting{s, shared} })()
	}
}

type counters struct {
	mu        sync.Mutex
	byKey     map[string]*counter
	algorithm driver.Algorithm
	free      func(*counter, driver.Limit, time.Time) (int, time.Duration)
}

type counting struct {
	store
	*counters
}

func (b counting) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if l.Algorithm != b.algorithm {
		return b.store.Take(ctx, key, l, asks)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.byKey[key]
	now := time.Now()
	if c == nil {
		c = &counter{at: now}
		b.byKey[key] = c
	}
	var t driver.Taken
	for _, a := range asks {
		free, retry := b.free(c, l, now)
		g := driver.Granted{N: min(a.N, free), ValidFor: 1}
		if g.N <= 0 || g.N < a.Min {
			g = driver.Granted{RetryAfter: retry}
		}
		c.used += float64(g.N)
		t.Asks = append(t.Asks, g)
		t.Remaining, t.ResetAfter = min(l.Max(), max(0, free-g.N)), retry
	}
	return t, nil
}

// weighing begins its windows so that the first use is late in one of them.
func weighing(c *counter, l driver.Limit, now time.Time) (int, time.Duration) {
	since := now.Sub(c.at) + l.Per*9/10
	if w := int64(since / l.Per); w > c.window {
		c.last = 0
		if w == c.window+1 {
			c.last = c.used
		}
		c.window, c.used = w, 0
	}
	left := 1 - float64(since%l.Per)/float64(l.Per)
	return l.Rate - int(c.used+c.last*left), l.Per - since%l.Per
}

func firstUse(c *counter, l driver.Limit, now time.Time) (int, time.Duration) {
	since := now.Sub(c.at)
	if w := int64(since / l.Per); w > c.window {
		c.window, c.used = w, 0
	}
	return l.Rate - int(c.used), l.Per - since%l.Per
}

// refill is how many permits have come since the last call, and what one takes.
func (c *counter) refill(l driver.Limit, now time.Time) (float64, time.Duration) {
	each := l.Per / time.Duration(l.Rate)
	n := float64(now.Sub(c.at)) / float64(each)
	c.at = now
	return n, max(each, 1)
}

func overflowing(c *counter, l driver.Limit, now time.Time) (int, time.Duration) {
	n, each := c.refill(l, now)
	c.used -= n // below zero, after a while: more than the burst is there
	return l.Burst - int(c.used), each
}

// capping has one account for each rate.
func capping(c *counter, l driver.Limit, now time.Time) (int, time.Duration) {
	n, each := c.refill(l, now)
	c.used = min(max(0, c.used-n), float64(l.Burst))
	return int(float64(l.Burst) - c.used), each
}

// draining has one account for all rates.
func draining(c *counter, l driver.Limit, now time.Time) (int, time.Duration) {
	n, each := c.refill(l, now)
	c.used = max(0, c.used-n)
	return int(max(0, float64(l.Burst)-c.used)), each
}

func drifting(c *counter, l driver.Limit, now time.Time) (int, time.Duration) {
	n, each := c.refill(l, now)
	c.used = max(0, c.used-float64(int(n)))
	return l.Burst - int(c.used), each
}
