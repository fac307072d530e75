// Package fault makes the calls of a store fail: between package coord and an adapter, where calls fail, and on the
// network, where connections break. It knows neither the cases nor the contract.
package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// Injector is between package coord and a backend. It records the calls and makes them fail: before they reach the
// store, or after the store has applied them. It needs nothing of the store, and so works for every one.
type Injector struct {
	inner driver.Backend
	quit  chan struct{} // closed by Close
	once  sync.Once

	mu     sync.Mutex
	calls  []Call
	ended  map[string]int // calls that have returned, by op
	script func(Call) Kind
	hole   Kind // what a stalled link does to every call
	drops  int  // replies still to be dropped
	delay  time.Duration
	held   <-chan struct{} // by Hold
	breaks chan struct{}   // closed by Reset: calls under way fail
}

// Call is one call of the core on the driver.
type Call struct {
	// N counts the calls of one Injector, from 1.
	N int
	// Op is the method's name, after "Shared." for those of driver.SharedLocker.
	Op string
	// Key, and the ID of the hold or the request, as far as the call has them.
	Key, ID string
	At      time.Time
}

// Kind is what becomes of a call.
type Kind int

// The kinds of faults.
const (
	None       Kind = iota // the call goes through
	FailBefore             // the request is lost
	FailAfter              // the reply is lost
	HangBefore             // the request is lost, and the caller waits until its context ends
	HangAfter              // the reply is lost, and the caller waits until its context ends
	Refuse                 // the store refuses the call: it changes nothing, and says so
)

// ErrInjected is the error of a call that the Injector failed. It is no
// definite error: its outcome is unknown.
var ErrInjected = errors.New("injected fault: connection lost")

// ErrRefused is the error of a call that the Injector refused.
var ErrRefused = fmt.Errorf("%w: injected fault: out of memory", driver.ErrNotSent)

// NewInjector puts an Injector before b. The backend that it gives implements Queuer and DelayedUnlocker if b does:
// the core works without them. It always implements the other optional interfaces, with the core's own fallback where
// b lacks them. Close closes b.
func NewInjector(b driver.Backend) (driver.Backend, *Injector) {
	in := &Injector{inner: b, quit: make(chan struct{}), breaks: make(chan struct{}), ended: make(map[string]int)}
	base := &faulty{in: in, inner: b}
	base.locker, _ = b.(driver.Locker)
	base.limiter, _ = b.(driver.Limiter)
	q, queues := b.(driver.Queuer)
	d, delays := b.(driver.DelayedUnlocker)
	switch {
	case queues && delays:
		return &struct {
			*faulty
			faultyQueuer
			faultyDelayer
		}{base, faultyQueuer{in, q}, faultyDelayer{in, d}}, in
	case queues:
		return &struct {
			*faulty
			faultyQueuer
		}{base, faultyQueuer{in, q}}, in
	case delays:
		return &struct {
			*faulty
			faultyDelayer
		}{base, faultyDelayer{in, d}}, in
	}
	return base, in
}

// Script sets what becomes of each call: fn decides on one call at a time, before the faults of the link apply. nil
// ends it.
func (in *Injector) Script(fn func(Call) Kind) { in.set(func() { in.script = fn }) }

// Calls lists the calls so far.
func (in *Injector) Calls() []Call {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.calls)
}

// Returned is how many calls of op have come back to the core.
func (in *Injector) Returned(op string) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.ended[op]
}

// StallRequests makes calls hang before they reach the store.
func (in *Injector) StallRequests() { in.set(func() { in.hole = HangBefore }) }

// StallReplies makes calls hang after they have reached the store.
func (in *Injector) StallReplies() {
	in.set(func() {
		if in.hole == None {
			in.hole = HangAfter
		}
	})
}

// Hold holds up every call before it reaches the store, until passed is closed.
func (in *Injector) Hold(passed <-chan struct{}) { in.set(func() { in.held = passed }) }

// DropReply loses the reply of the next call.
func (in *Injector) DropReply() { in.set(func() { in.drops++ }) }

// Delay makes each call slower.
func (in *Injector) Delay(d time.Duration) { in.set(func() { in.delay = d }) }

// Reset makes the calls fail that are under way.
func (in *Injector) Reset() {
	in.set(func() {
		close(in.breaks)
		in.breaks = make(chan struct{})
	})
}

// Cut makes calls fail before they reach the store.
func (in *Injector) Cut() {
	in.set(func() { in.hole = FailBefore })
	in.Reset()
}

// Heal ends the faults of the link. Calls that hang stay lost until their context ends.
func (in *Injector) Heal() { in.set(func() { in.hole, in.drops, in.delay = None, 0, 0 }) }

func (in *Injector) set(fn func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	fn()
}

// plan is what becomes of a call.
type plan struct {
	kind   Kind
	delay  time.Duration
	held   <-chan struct{} // nil: by nothing
	breaks chan struct{}
}

// plan records a call and says what becomes of it.
func (in *Injector) plan(op, key, id string) plan {
	in.mu.Lock()
	defer in.mu.Unlock()
	c := Call{N: len(in.calls) + 1, Op: op, Key: key, ID: id, At: time.Now()}
	in.calls = append(in.calls, c)
	kind := None
	if in.script != nil {
		kind = in.script(c)
	}
	switch {
	case kind != None:
	case in.hole != None:
		kind = in.hole
	case in.drops > 0:
		in.drops--
		kind = FailAfter
	}
	return plan{kind, in.delay, in.held, in.breaks}
}

// do makes one call with its fault.
func (in *Injector) do(ctx context.Context, op, key, id string, apply func(context.Context) error) error {
	p := in.plan(op, key, id)
	defer in.set(func() { in.ended[op]++ })
	if p.held != nil {
		<-p.held
	}
	if p.delay > 0 {
		if err := in.wait(ctx, p.delay, p.breaks); err != nil {
			return err
		}
	}
	switch p.kind {
	case FailBefore:
		return ErrInjected
	case Refuse:
		return ErrRefused
	case HangBefore:
		return in.wait(ctx, -1, p.breaks)
	}
	err := apply(ctx)
	switch p.kind {
	case FailAfter:
		return ErrInjected
	case HangAfter:
		return in.wait(ctx, -1, p.breaks)
	}
	return err
}

// wait passes d, or forever if that is negative, unless the call ends first.
func (in *Injector) wait(ctx context.Context, d time.Duration, breaks chan struct{}) error {
	var due <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-due:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrInjected, ctx.Err())
	case <-breaks:
		return ErrInjected
	case <-in.quit:
		return fmt.Errorf("%w: the client was closed", ErrInjected)
	}
}

// faulty is the backend behind an Injector.
type faulty struct {
	in      *Injector
	inner   driver.Backend
	locker  driver.Locker
	limiter driver.Limiter
}

func (f *faulty) Info() driver.Info { return f.inner.Info() }

func (f *faulty) Close() error {
	f.in.once.Do(func() { close(f.in.quit) })
	return f.inner.Close()
}

func (f *faulty) Ping(ctx context.Context) error {
	return f.in.do(ctx, "Ping", "", "", func(ctx context.Context) error {
		if p, ok := f.inner.(driver.Pinger); ok {
			return p.Ping(ctx)
		}
		return nil
	})
}

func (f *faulty) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return f.in.grant(ctx, "TryLock", key, r, func(ctx context.Context) (driver.Grant, error) {
		return f.locker.TryLock(ctx, key, r)
	})
}

func (f *faulty) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return f.in.grant(ctx, "Renew", key, r, func(ctx context.Context) (driver.Grant, error) {
		return f.locker.Renew(ctx, key, r)
	})
}

func (f *faulty) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	if b, ok := f.inner.(driver.BatchRenewer); ok {
		out := make([]driver.Renewal, len(holds))
		err := f.in.do(ctx, "RenewAll", "", "", func(ctx context.Context) error {
			copy(out, b.RenewAll(ctx, holds))
			return nil
		})
		if err != nil {
			for i := range out {
				out[i] = driver.Renewal{Err: err}
			}
		}
		return out
	}
	out := make([]driver.Renewal, len(holds))
	var wg sync.WaitGroup
	for i, h := range holds {
		wg.Go(func() { out[i].Grant, out[i].Err = f.Renew(ctx, h.Key, h.Request) })
	}
	wg.Wait()
	return out
}

func (f *faulty) Unlock(ctx context.Context, key, id string) error {
	if f.locker == nil {
		return driver.ErrUnsupported
	}
	return f.in.do(ctx, "Unlock", key, id, func(ctx context.Context) error { return f.locker.Unlock(ctx, key, id) })
}

func (in *Injector) grant(ctx context.Context, op, key string, r driver.Request, apply func(context.Context) (driver.Grant, error)) (driver.Grant, error) {
	if _, ok := in.inner.(driver.Locker); !ok {
		return driver.Grant{}, driver.ErrUnsupported
	}
	return in.granted(ctx, op, key, r.ID, apply)
}

// granted is a call that answers with a grant, unless it fails.
func (in *Injector) granted(ctx context.Context, op, key, id string, apply func(context.Context) (driver.Grant, error)) (g driver.Grant, err error) {
	err = in.do(ctx, op, key, id, func(ctx context.Context) (err error) {
		g, err = apply(ctx)
		return err
	})
	if err != nil {
		g = driver.Grant{}
	}
	return g, err
}

func (f *faulty) NotifyLost(fn func(key, id string, cause error)) {
	if n, ok := f.inner.(driver.LossNotifier); ok {
		n.NotifyLost(fn)
	}
}

func (f *faulty) Partition(key string) string {
	if p, ok := f.inner.(driver.Partitioner); ok {
		return p.Partition(key)
	}
	return ""
}

func (f *faulty) Inspect(ctx context.Context, key string) (h driver.Holder, err error) {
	i, ok := f.inner.(driver.Inspector)
	if !ok {
		return h, driver.ErrUnsupported
	}
	err = f.in.do(ctx, "Inspect", key, "", func(ctx context.Context) (err error) {
		h, err = i.Inspect(ctx, key)
		return err
	})
	return h, err
}

func (f *faulty) Break(ctx context.Context, key, id string) error {
	b, ok := f.inner.(driver.Breaker)
	if !ok {
		return driver.ErrUnsupported
	}
	return f.in.do(ctx, "Break", key, id, func(ctx context.Context) error { return b.Break(ctx, key, id) })
}

// BreakNow is Unlock of a backend that breaks nothing.
func (f *faulty) BreakNow(ctx context.Context, key, id string) error {
	free := f.inner.(driver.Locker).Unlock
	if b, ok := f.inner.(driver.Breaker); ok {
		free = b.BreakNow
	}
	return f.in.do(ctx, "BreakNow", key, id, func(ctx context.Context) error { return free(ctx, key, id) })
}

func (f *faulty) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (t driver.Taken, err error) {
	if f.limiter == nil {
		return t, driver.ErrUnsupported
	}
	id := ""
	if len(asks) > 0 {
		id = asks[0].ID
	}
	err = f.in.do(ctx, "Take", key, id, func(ctx context.Context) (err error) {
		t, err = f.limiter.Take(ctx, key, l, asks)
		return err
	})
	return t, err
}

func (f *faulty) Reset(ctx context.Context, key string, l driver.Limit) error {
	if f.limiter == nil {
		return driver.ErrUnsupported
	}
	return f.in.do(ctx, "Reset", key, "", func(ctx context.Context) error { return f.limiter.Reset(ctx, key, l) })
}

func (f *faulty) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	r, ok := f.inner.(driver.Refunder)
	if !ok {
		return driver.ErrUnsupported
	}
	return f.in.do(ctx, "Refund", key, id, func(ctx context.Context) error { return r.Refund(ctx, key, l, id, n) })
}

func (f *faulty) Charge(ctx context.Context, key string, l driver.Limit, n int) (c driver.Charged, err error) {
	r, ok := f.inner.(driver.Charger)
	if !ok {
		return c, driver.ErrUnsupported
	}
	err = f.in.do(ctx, "Charge", key, "", func(ctx context.Context) (err error) {
		c, err = r.Charge(ctx, key, l, n)
		return err
	})
	return c, err
}

func (f *faulty) TakeAll(ctx context.Context, demands []driver.Demand) (out []driver.Taken, err error) {
	m, ok := f.inner.(driver.MultiLimiter)
	if !ok {
		return nil, driver.ErrUnsupported
	}
	err = f.in.do(ctx, "TakeAll", "", "", func(ctx context.Context) (err error) {
		out, err = m.TakeAll(ctx, demands)
		return err
	})
	return out, err
}

// faultyQueuer and faultyDelayer are there only if the backend has them.
type faultyQueuer struct {
	in *Injector
	q  driver.Queuer
}

func (f faultyQueuer) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	return f.in.grant(ctx, "Lock", key, r, func(ctx context.Context) (driver.Grant, error) {
		return f.q.Lock(ctx, key, r, waits)
	})
}

type faultyDelayer struct {
	in *Injector
	d  driver.DelayedUnlocker
}

func (f faultyDelayer) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	return f.in.do(ctx, "UnlockAfter", key, id, func(ctx context.Context) error { return f.d.UnlockAfter(ctx, key, id, d) })
}
