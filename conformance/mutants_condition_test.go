package conformance_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/conformance"
)

// Bugs of Cond. Their store is sound, but for that of the last.
var conditionMutants = []mutant{
	{
		name: "signals dropped", bug: "every second signal is lost", sound: "sharing",
		new: waiting(func(c cond) cond { c.signal = everySecond(c.signal); return c }), killers: []string{"LOCK-351"},
	}, {
		name: "broadcast to one", bug: "a broadcast wakes who has waited longest alone", sound: "sharing",
		new: waiting(func(c cond) cond { c.broadcast = c.signal; return c }), killers: []string{"LOCK-355"},
	}, {
		name: "lock kept while waiting", bug: "who waits keeps the lock, and polls", sound: "sharing",
		new: waiting(func(c cond) cond { c.wait = polls; return c }), killers: []string{"LOCK-352", "LOCK-355"},
	}, {
		name: "waits and signals without the lock", bug: "a condition takes the lock itself where its caller does not have it", sound: "sharing",
		new: waiting(takingLock), killers: []string{"LOCK-353"},
	}, {
		name: "lock given up by half", bug: "a lock that was entered twice is waited under, and nobody else gets it", sound: "sharing",
		new: waiting(halfGivenUp), killers: []string{"LOCK-353"},
	}, {
		name: "wait without end", bug: "a wait ends with a signal alone, whoever has taken it", sound: "sharing",
		new: waiting(func(c cond) cond { c.wait = endless(c.wait); return c }), killers: []string{"LOCK-354"},
	}, {
		name: "failed wait untold", bug: "a wait that was cancelled returns as if it had the lock", sound: "sharing",
		new: waiting(func(c cond) cond { c.wait = untold(c.wait); return c }), killers: []string{"LOCK-356"},
	}, {
		name: "places kept", bug: "what a waiter has in the store is not removed, by itself or by a signal", sound: "sharing",
		new: sharing(sharedBug{unlock: func(*record, string, time.Time) error { return nil }}), killers: []string{"LOCK-355", "LOCK-356", "LOCK-357"},
	},
}

// cond is a condition, of the parts of one.
type cond struct {
	c                       *coord.Client
	key                     string
	wait, signal, broadcast func(context.Context) error
}

func (c cond) Wait(ctx context.Context) error      { return c.wait(ctx) }
func (c cond) Signal(ctx context.Context) error    { return c.signal(ctx) }
func (c cond) Broadcast(ctx context.Context) error { return c.broadcast(ctx) }

// waiting makes a harness of a sound store with broken conditions.
func waiting(with func(cond) cond) func() harness {
	return func() harness {
		return sharing(sharedBug{})().Waiting(func(c *coord.Client, key string) conformance.Condition {
			sound := c.Cond(key)
			return with(cond{c, key, sound.Wait, sound.Signal, sound.Broadcast})
		})
	}
}

// dropped counts the signals of all clients.
var dropped atomic.Int64

func everySecond(fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if dropped.Add(1)%2 == 0 {
			return nil
		}
		return fn(ctx)
	}
}

func polls(ctx context.Context) error {
	select {
	case <-time.After(10 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func takingLock(c cond) cond {
	locked := func(fn func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			if _, held := coord.Held(ctx, c.key); held {
				return fn(ctx)
			}
			return coord.Do(ctx, c.c, c.key, fn)
		}
	}
	c.signal, c.broadcast = locked(c.signal), locked(c.broadcast)
	return c
}

func halfGivenUp(c cond) cond {
	sound := c.wait
	c.wait = func(ctx context.Context) error {
		if err := sound(ctx); !errors.Is(err, coord.ErrInvalid) {
			return err
		}
		return polls(ctx)
	}
	return c
}

func endless(wait func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			began := time.Now()
			if err := wait(ctx); err != nil || time.Since(began) < time.Second {
				return err
			}
		}
	}
}

func untold(wait func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := wait(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		return nil
	}
}
