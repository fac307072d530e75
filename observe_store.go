package coord

import (
	"context"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/permit"
)

// Under observation the driver's calls go through what is here; without, they do
// not, and cost nothing.

// attach changes the client's store to what can be observed, as far as somebody is told.
func (o *observing) attach(limits *permit.Store) {
	if o.store {
		o.timeLocks()
		o.timeLimits(limits)
	}
	if o.limits {
		o.c.quick = nil
	}
}

// timeLocks puts a stopwatch before every call for a lock.
func (o *observing) timeLocks() {
	l := &o.c.locks
	if l.Locker != nil {
		l.Locker = &timedLocker{l.Locker, o}
	}
	if l.queuer != nil {
		l.queuer = &timedQueuer{l.queuer, o}
	}
	if l.direct != nil {
		l.direct = &timedDirect{l.direct, o}
	}
	if l.batch != nil {
		l.batch = &timedRenewer{l.batch, o}
	}
	if l.delayed != nil {
		l.delayed = &timedUnlocker{l.delayed, o}
	}
	if l.inspect != nil {
		l.inspect = &timedInspector{l.inspect, o}
	}
	if l.breaker != nil {
		l.breaker = &timedBreaker{l.breaker, o}
	}
}

// timeLimits does so for limits.
func (o *observing) timeLimits(l *permit.Store) {
	if l.Limiter != nil {
		l.Limiter = &timedLimiter{l.Limiter, o}
	}
	o.c.quick = nil
	if l.One != nil {
		l.One = &timedTaker{l.One, o}
	}
	if l.Multi != nil {
		l.Multi = &timedMulti{l.Multi, o}
	}
	if l.Refund != nil {
		l.Refund = &timedRefunder{l.Refund, o}
	}
}

// called tells of a call on the store that was made at sent. The key has its prefix.
func (o *observing) called(ctx context.Context, op, key string, sent time.Duration, err error) {
	tell(o, ctx, "StoreCalled", func(o *Observer) func(context.Context, StoreCall) { return o.StoreCalled },
		StoreCall{
			Backend: o.c.info.Name, Op: op, Key: strings.TrimPrefix(key, o.c.prefix),
			Took: o.c.clock.Mono() - sent, Err: err,
		})
}

type timedLocker struct {
	driver.Locker
	o *observing
}

func (t *timedLocker) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	sent := t.o.c.clock.Mono()
	g, err := t.Locker.TryLock(ctx, key, r)
	t.o.called(ctx, "trylock", key, sent, err)
	return g, err
}

func (t *timedLocker) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	sent := t.o.c.clock.Mono()
	g, err := t.Locker.Renew(ctx, key, r)
	t.o.called(ctx, "renew", key, sent, err)
	return g, err
}

func (t *timedLocker) Unlock(ctx context.Context, key, id string) error {
	sent := t.o.c.clock.Mono()
	err := t.Locker.Unlock(ctx, key, id)
	t.o.called(ctx, "unlock", key, sent, err)
	return err
}

type timedQueuer struct {
	driver.Queuer
	o *observing
}

func (t *timedQueuer) Lock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	sent := t.o.c.clock.Mono()
	g, err := t.Queuer.Lock(ctx, key, r)
	t.o.called(ctx, "lock", key, sent, err)
	return g, err
}

type timedDirect struct {
	driver.DirectQueuer
	o *observing
}

func (t *timedDirect) LockDirect(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	sent := t.o.c.clock.Mono()
	g, err := t.DirectQueuer.LockDirect(ctx, key, r, waits)
	t.o.called(ctx, "lock", key, sent, err)
	return g, err
}

type timedRenewer struct {
	driver.BatchRenewer
	o *observing
}

func (t *timedRenewer) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	sent := t.o.c.clock.Mono()
	answers := t.BatchRenewer.RenewAll(ctx, holds)
	var err error // the first failure, as the request fails as a whole
	for _, a := range answers {
		if storeFailed(a.Err) {
			err = a.Err
			break
		}
	}
	t.o.called(ctx, "renewall", "", sent, err)
	return answers
}

type timedUnlocker struct {
	driver.DelayedUnlocker
	o *observing
}

func (t *timedUnlocker) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	sent := t.o.c.clock.Mono()
	err := t.DelayedUnlocker.UnlockAfter(ctx, key, id, d)
	t.o.called(ctx, "unlock", key, sent, err)
	return err
}

type timedInspector struct {
	driver.Inspector
	o *observing
}

func (t *timedInspector) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	sent := t.o.c.clock.Mono()
	h, err := t.Inspector.Inspect(ctx, key)
	t.o.called(ctx, "inspect", key, sent, err)
	return h, err
}

type timedBreaker struct {
	driver.Breaker
	o *observing
}

func (t *timedBreaker) Break(ctx context.Context, key, id string) error {
	sent := t.o.c.clock.Mono()
	err := t.Breaker.Break(ctx, key, id)
	t.o.called(ctx, "break", key, sent, err)
	return err
}

type timedLimiter struct {
	driver.Limiter
	o *observing
}

func (t *timedLimiter) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	sent := t.o.c.clock.Mono()
	taken, err := t.Limiter.Take(ctx, key, l, asks)
	t.o.called(ctx, "take", key, sent, err)
	return taken, err
}

func (t *timedLimiter) Reset(ctx context.Context, key string, l driver.Limit) error {
	sent := t.o.c.clock.Mono()
	err := t.Limiter.Reset(ctx, key, l)
	t.o.called(ctx, "reset", key, sent, err)
	return err
}

type timedTaker struct {
	driver.OneTaker
	o *observing
}

func (t *timedTaker) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	sent := t.o.c.clock.Mono()
	taken, err := t.OneTaker.TakeOne(ctx, key, l, a)
	t.o.called(ctx, "take", key, sent, err)
	return taken, err
}

type timedMulti struct {
	driver.MultiLimiter
	o *observing
}

func (t *timedMulti) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	sent := t.o.c.clock.Mono()
	taken, err := t.MultiLimiter.TakeAll(ctx, demands)
	t.o.called(ctx, "takeall", "", sent, err)
	return taken, err
}

type timedRefunder struct {
	driver.Refunder
	o *observing
}

func (t *timedRefunder) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	sent := t.o.c.clock.Mono()
	err := t.Refunder.Refund(ctx, key, l, id, n)
	t.o.called(ctx, "refund", key, sent, err)
	return err
}
