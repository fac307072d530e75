package conformance_test

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// Bugs of elections. Their store is sound; what is broken is Lead.
var electionMutants = []mutant{
	{
		name: "terms of one owner", bug: "candidates under one context enter one another's term",
		new: electing(sharedOwner), killers: []string{"LOCK-271"},
	}, {
		name: "leader not waited for", bug: "the key is given back, and the next term begins, while the function of the last still runs",
		new: electing(notWaitedFor), killers: []string{"LOCK-272", "LOCK-273", "LOCK-282"},
	}, {
		name: "clean-up for who never led", bug: "the function also runs when a candidate gives up (client-go 1187)",
		new: electing(calledInVain), killers: []string{"LOCK-274"},
	}, {
		name: "a cancelled candidate stays in the queue", bug: "who gives up before the first term leaves its entry behind, which leads with nobody there (etcd 21128)",
		new: electing(staysInLine), killers: []string{"LOCK-274"},
	}, {
		name: "release is opt-in", bug: "a leader that is stopped leaves the key to its lease",
		new: electing(notReleased), killers: []string{"LOCK-273"},
	}, {
		name: "one campaign", bug: "an election ends at the first error of the store",
		new: electing(oneCampaign), killers: []string{"LOCK-275", "LOCK-278", "LOCK-280"},
	}, {
		name: "campaigns without pause", bug: "a candidate hammers a store that is away",
		new: electing(restless), killers: []string{"LOCK-275"},
	}, {
		name: "a lost term's error ends it", bug: "what the function returns when its term is lost is taken for its own end",
		new: electing(lossIsEnd), killers: []string{"LOCK-281"},
	}, {
		name: "campaigns for ever", bug: "a candidate of a closed client tries again and again",
		new: electing(neverEnds), killers: []string{"LOCK-281"},
	}, {
		name: "watch silent on vacancy", bug: "who watches is told of leaders alone, as by Observe of etcd's election",
		new: watching(silentOnVacancy), killers: []string{"LOCK-283", "LOCK-284"},
	}, {
		name: "watch goes back", bug: "an answer that lags behind names the leader before the present one",
		new: watching(goesBack), killers: []string{"LOCK-284"},
	}, {
		name: "watch is deaf after a restore", bug: "tokens never go back, not even when the store has",
		new: watching(deaf), killers: []string{"LOCK-284"},
	}, {
		name: "watch ends with an outage", bug: "the first error of the store is the last of the watch",
		new: watching(endsWithOutage), killers: []string{"LOCK-285"},
	}, {
		name: "watch tells each failed look", bug: "an outage floods who watches",
		new: watching(floods), killers: []string{"LOCK-285"},
	}, {
		name: "watch without pause", bug: "who watches hammers the store",
		new: watching(hammers), killers: []string{"LOCK-285"},
	},
}

type leadFunc = func(ctx context.Context, l coord.Locker, key string, fn func(context.Context) error, opts ...coord.LockOption) error

// electing makes a harness of a sound store with a Lead.
func electing(lead leadFunc) func() harness {
	sound := on(func(s store) driver.Backend { return struct{ store }{s} })
	return func() harness { return sound().Electing(lead, nil) }
}

type watchFunc = func(ctx context.Context, c *coord.Client, key string) iter.Seq2[coord.Holder, error]

// watching makes a harness of a sound store with a Watch.
func watching(watch watchFunc) func() harness {
	sound := on(func(s store) driver.Backend { return struct{ store }{s} })
	return func() harness { return sound().Electing(nil, watch) }
}

// sharedOwner takes the lock for the owner that ctx has.
func sharedOwner(ctx context.Context, l coord.Locker, key string, fn func(context.Context) error, opts ...coord.LockOption) error {
	lock, err := l.Lock(ctx, key, opts...)
	if err != nil {
		return err
	}
	term, cancel := lock.Context(ctx)
	defer cancel()
	return errors.Join(fn(term), lock.Unlock(ctx))
}

func notWaitedFor(ctx context.Context, l coord.Locker, key string, fn func(context.Context) error, opts ...coord.LockOption) error {
	return coord.Lead(ctx, l, key, unwaited(fn), opts...)
}

// unwaited is fn as a function that returns when its context ends, whether fn has returned or not.
func unwaited(fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		result, panicked := make(chan error, 1), make(chan any, 1)
		go func() {
			defer func() {
				if p := recover(); p != nil {
					panicked <- p
				}
			}()
			result <- fn(ctx)
		}()
		select {
		case err := <-result:
			return err
		case p := <-panicked:
			panic(p)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func calledInVain(ctx context.Context, l coord.Locker, key string, fn func(context.Context) error, opts ...coord.LockOption) error {
	led := false
	err := coord.Lead(ctx, l, key, func(ctx context.Context) error {
		led = true
		return fn(ctx)
	}, opts...)
	if !led {
		err = errors.Join(err, fn(ctx))
	}
	return err
}

// staysInLine leaves an entry behind that leads for nobody, until its client is closed.
func staysInLine(ctx context.Context, l coord.Locker, key string, fn func(context.Context) error, opts ...coord.LockOption) error {
	led := false
	err := coord.Lead(ctx, l, key, func(ctx context.Context) error {
		led = true
		return fn(ctx)
	}, opts...)
	if !led && ctx.Err() != nil {
		go func() {
			_ = coord.Lead(context.WithoutCancel(ctx), l, key, func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			}, opts...)
		}()
	}
	return err
}

func notReleased(ctx context.Context, l coord.Locker, key string, fn func(context.Context) error, opts ...coord.LockOption) error {
	ctx = coord.WithOwner(ctx)
	if _, err := l.Lock(ctx, key, opts...); err != nil {
		return err
	}
	return coord.Do(ctx, l, key, fn, opts...)
}

func oneCampaign(ctx context.Context, l coord.Locker, key string, fn func(context.Context) error, opts ...coord.LockOption) error {
	return coord.Do(coord.WithOwner(ctx), l, key, fn, opts...)
}

// again campaigns until one ends it, with pauses between.
func again(ctx context.Context, pause time.Duration, campaign func(ctx context.Context) (end bool, err error)) error {
	for {
		if end, err := campaign(coord.WithOwner(ctx)); end || ctx.Err() != nil {
			return err
		}
		time.Sleep(pause)
	}
}

func restless(ctx context.Context, l coord.Locker, key string, fn func(context.Context) error, opts ...coord.LockOption) error {
	return again(ctx, time.Millisecond, func(ctx context.Context) (bool, error) {
		err := coord.Do(ctx, l, key, fn, opts...)
		return err == nil, err
	})
}

func lossIsEnd(ctx context.Context, l coord.Locker, key string, fn func(context.Context) error, opts ...coord.LockOption) error {
	return again(ctx, 10*time.Millisecond, func(ctx context.Context) (led bool, err error) {
		err = coord.Do(ctx, l, key, func(ctx context.Context) error {
			led = true
			return fn(ctx)
		}, opts...)
		return led || errors.Is(err, coord.ErrInvalid) || errors.Is(err, coord.ErrClosed), err
	})
}

func neverEnds(ctx context.Context, l coord.Locker, key string, fn func(context.Context) error, opts ...coord.LockOption) error {
	return again(ctx, 10*time.Millisecond, func(ctx context.Context) (bool, error) {
		err := coord.Lead(ctx, l, key, fn, opts...)
		return !errors.Is(err, coord.ErrClosed), err
	})
}

// filtered is a Watch that gives what pass lets through of the real one's.
func filtered(pass func(h coord.Holder, err error) bool) watchFunc {
	return func(ctx context.Context, c *coord.Client, key string) iter.Seq2[coord.Holder, error] {
		return func(yield func(coord.Holder, error) bool) {
			for h, err := range c.Watch(ctx, key) {
				if pass(h, err) && !yield(h, err) {
					return
				}
			}
		}
	}
}

var silentOnVacancy = filtered(func(_ coord.Holder, err error) bool { return !errors.Is(err, coord.ErrNotHeld) })

func deaf(ctx context.Context, c *coord.Client, key string) iter.Seq2[coord.Holder, error] {
	last := coord.Token(0)
	return filtered(func(h coord.Holder, err error) bool {
		if err == nil && h.Token < last {
			return false
		}
		last = max(last, h.Token)
		return true
	})(ctx, c, key)
}

// looks is a Watch that looks with a pause, and gives what is another holder, or another error, than before.
func looks(pause time.Duration, again bool) watchFunc {
	return func(ctx context.Context, c *coord.Client, key string) iter.Seq2[coord.Holder, error] {
		return func(yield func(coord.Holder, error) bool) {
			before := "?"
			for ctx.Err() == nil {
				h, err := c.Inspect(ctx, key)
				now := h.ID
				if err != nil {
					now = err.Error()
				}
				if (now != before || again && err != nil) && !yield(h, err) {
					return
				}
				before = now
				time.Sleep(pause)
			}
		}
	}
}

var (
	goesBack = looks(250*time.Millisecond, false)
	floods   = looks(250*time.Millisecond, true)
	hammers  = looks(time.Millisecond, false)
)

func endsWithOutage(ctx context.Context, c *coord.Client, key string) iter.Seq2[coord.Holder, error] {
	return func(yield func(coord.Holder, error) bool) {
		for h, err := range c.Watch(ctx, key) {
			if !yield(h, err) || err != nil && !errors.Is(err, coord.ErrNotHeld) {
				return
			}
		}
	}
}
