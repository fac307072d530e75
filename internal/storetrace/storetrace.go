// Package storetrace tells of every call on a store: it decorates the interfaces of package driver.
package storetrace

import (
	"context"
	"iter"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
)

// Trace is told of calls. Its methods decorate what they are given.
type Trace struct {
	Clock  *clock.Clock
	Called func(ctx context.Context, op, key string, took time.Duration, err error)
}

func (t *Trace) now() time.Duration { return t.Clock.Mono() }

// called tells of a call that was made at sent.
func (t *Trace) called(ctx context.Context, op, key string, sent time.Duration, err error) {
	t.Called(ctx, op, key, t.now()-sent, err)
}

// Locker tells of the calls of a Locker, which may be nil.
func (t *Trace) Locker(d driver.Locker) driver.Locker {
	if d == nil {
		return nil
	}
	return &timedLocker{d, t}
}

type timedLocker struct {
	driver.Locker
	t *Trace
}

func (d *timedLocker) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	sent := d.t.now()
	g, err := d.Locker.TryLock(ctx, key, r)
	d.t.called(ctx, "trylock", key, sent, err)
	return g, err
}

func (d *timedLocker) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	sent := d.t.now()
	g, err := d.Locker.Renew(ctx, key, r)
	d.t.called(ctx, "renew", key, sent, err)
	return g, err
}

func (d *timedLocker) Unlock(ctx context.Context, key, id string) error {
	sent := d.t.now()
	err := d.Locker.Unlock(ctx, key, id)
	d.t.called(ctx, "unlock", key, sent, err)
	return err
}

// Queuer tells of the calls of a Queuer, which may be nil.
func (t *Trace) Queuer(d driver.Queuer) driver.Queuer {
	if d == nil {
		return nil
	}
	return &timedQueuer{d, t}
}

type timedQueuer struct {
	driver.Queuer
	t *Trace
}

func (d *timedQueuer) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	sent := d.t.now()
	g, err := d.Queuer.Lock(ctx, key, r, waits)
	d.t.called(ctx, "lock", key, sent, err)
	return g, err
}

// BatchRenewer tells of the calls of a BatchRenewer, which may be nil.
func (t *Trace) BatchRenewer(d driver.BatchRenewer) driver.BatchRenewer {
	if d == nil {
		return nil
	}
	return &timedRenewer{d, t}
}

type timedRenewer struct {
	driver.BatchRenewer
	t *Trace
}

func (d *timedRenewer) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	sent := d.t.now()
	answers := d.BatchRenewer.RenewAll(ctx, holds)
	var err error // the first failure, as the request fails as a whole
	for _, a := range answers {
		if errs.StoreFailed(a.Err) {
			err = a.Err
			break
		}
	}
	d.t.called(ctx, "renewall", "", sent, err)
	return answers
}

// DelayedUnlocker tells of the calls of a DelayedUnlocker, which may be nil.
func (t *Trace) DelayedUnlocker(d driver.DelayedUnlocker) driver.DelayedUnlocker {
	if d == nil {
		return nil
	}
	return &timedUnlocker{d, t}
}

type timedUnlocker struct {
	driver.DelayedUnlocker
	t *Trace
}

func (d *timedUnlocker) UnlockAfter(ctx context.Context, key, id string, after time.Duration) error {
	sent := d.t.now()
	err := d.DelayedUnlocker.UnlockAfter(ctx, key, id, after)
	d.t.called(ctx, "unlock", key, sent, err)
	return err
}

// Inspector tells of the calls of a Inspector, which may be nil.
func (t *Trace) Inspector(d driver.Inspector) driver.Inspector {
	if d == nil {
		return nil
	}
	return &timedInspector{d, t}
}

type timedInspector struct {
	driver.Inspector
	t *Trace
}

func (d *timedInspector) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	sent := d.t.now()
	h, err := d.Inspector.Inspect(ctx, key)
	d.t.called(ctx, "inspect", key, sent, err)
	return h, err
}

// Lister tells of the calls of a Lister, which may be nil.
func (t *Trace) Lister(d driver.Lister) driver.Lister {
	if d == nil {
		return nil
	}
	return &timedLister{d, t}
}

type timedLister struct {
	driver.Lister
	t *Trace
}

// List tells, at its end, how long the store took for all keys together.
func (d *timedLister) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		sent := d.t.now()
		var failed error
		for key, err := range d.Lister.List(ctx, prefix) {
			yielded := d.t.now()
			failed = err
			more := yield(key, err)
			sent += d.t.now() - yielded
			if !more {
				break
			}
		}
		d.t.called(ctx, "list", prefix, sent, failed)
	}
}

// Breaker tells of the calls of a Breaker, which may be nil.
func (t *Trace) Breaker(d driver.Breaker) driver.Breaker {
	if d == nil {
		return nil
	}
	return &timedBreaker{d, t}
}

type timedBreaker struct {
	driver.Breaker
	t *Trace
}

func (d *timedBreaker) Break(ctx context.Context, key, id string) error {
	sent := d.t.now()
	err := d.Breaker.Break(ctx, key, id)
	d.t.called(ctx, "break", key, sent, err)
	return err
}

func (d *timedBreaker) BreakNow(ctx context.Context, key, id string) error {
	sent := d.t.now()
	err := d.Breaker.BreakNow(ctx, key, id)
	d.t.called(ctx, "breaknow", key, sent, err)
	return err
}

// Limiter tells of the calls of a Limiter, which may be nil.
func (t *Trace) Limiter(d driver.Limiter) driver.Limiter {
	if d == nil {
		return nil
	}
	return &timedLimiter{d, t}
}

type timedLimiter struct {
	driver.Limiter
	t *Trace
}

func (d *timedLimiter) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	sent := d.t.now()
	taken, err := d.Limiter.Take(ctx, key, l, asks)
	d.t.called(ctx, "take", key, sent, err)
	return taken, err
}

func (d *timedLimiter) Reset(ctx context.Context, key string, l driver.Limit) error {
	sent := d.t.now()
	err := d.Limiter.Reset(ctx, key, l)
	d.t.called(ctx, "reset", key, sent, err)
	return err
}

// OneTaker tells of the calls of a OneTaker, which may be nil.
func (t *Trace) OneTaker(d driver.OneTaker) driver.OneTaker {
	if d == nil {
		return nil
	}
	return &timedTaker{d, t}
}

type timedTaker struct {
	driver.OneTaker
	t *Trace
}

func (d *timedTaker) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	sent := d.t.now()
	taken, err := d.OneTaker.TakeOne(ctx, key, l, a)
	d.t.called(ctx, "take", key, sent, err)
	return taken, err
}

// MultiLimiter tells of the calls of a MultiLimiter, which may be nil.
func (t *Trace) MultiLimiter(d driver.MultiLimiter) driver.MultiLimiter {
	if d == nil {
		return nil
	}
	return &timedMulti{d, t}
}

type timedMulti struct {
	driver.MultiLimiter
	t *Trace
}

func (d *timedMulti) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	sent := d.t.now()
	taken, err := d.MultiLimiter.TakeAll(ctx, demands)
	d.t.called(ctx, "takeall", "", sent, err)
	return taken, err
}

// Refunder tells of the calls of a Refunder, which may be nil.
func (t *Trace) Refunder(d driver.Refunder) driver.Refunder {
	if d == nil {
		return nil
	}
	return &timedRefunder{d, t}
}

type timedRefunder struct {
	driver.Refunder
	t *Trace
}

func (d *timedRefunder) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	sent := d.t.now()
	err := d.Refunder.Refund(ctx, key, l, id, n)
	d.t.called(ctx, "refund", key, sent, err)
	return err
}

// Charger tells of the calls of a Charger, which may be nil.
func (t *Trace) Charger(d driver.Charger) driver.Charger {
	if d == nil {
		return nil
	}
	return &timedCharger{d, t}
}

type timedCharger struct {
	driver.Charger
	t *Trace
}

func (d *timedCharger) Charge(ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
	sent := d.t.now()
	c, err := d.Charger.Charge(ctx, key, l, n)
	d.t.called(ctx, "charge", key, sent, err)
	return c, err
}

// SharedLocker tells of the calls of Holders of a SharedLocker, which may be nil. Locker tells of the others.
func (t *Trace) SharedLocker(d driver.SharedLocker) driver.SharedLocker {
	if d == nil {
		return nil
	}
	return &timedHolders{d, t}
}

type timedHolders struct {
	driver.SharedLocker
	t *Trace
}

func (d *timedHolders) Holders(ctx context.Context, key string) ([]driver.Holder, error) {
	sent := d.t.now()
	holders, err := d.SharedLocker.Holders(ctx, key)
	d.t.called(ctx, "holders", key, sent, err)
	return holders, err
}
