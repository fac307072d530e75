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
	quit chan struct{} // closed by Close
	once sync.Once

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

// NewInjector puts an Injector before b. Close closes b.
func NewInjector(b driver.Backend) (driver.Backend, *Injector) {
	in := &Injector{quit: make(chan struct{}), breaks: make(chan struct{}), ended: make(map[string]int)}
	return &faulty{locker{in, b, ""}, inner{b}}, in
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

// faulty is the backend behind an Injector: what its locker has not, it has of the backend.
type faulty struct {
	locker
	inner
}

type inner struct{ driver.Backend }

func (f *faulty) Close() error {
	f.in.once.Do(func() { close(f.in.quit) })
	return f.inner.Close()
}

func (f *faulty) Ping(ctx context.Context) error { return f.in.do(ctx, "Ping", "", "", f.inner.Ping) }

func (f *faulty) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	return answer(ctx, f.in, "Lock", key, r.ID, func(ctx context.Context) (driver.Grant, error) {
		return f.inner.Lock(ctx, key, r, waits)
	})
}

func (f *faulty) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	return answer(ctx, f.in, "Inspect", key, "", func(ctx context.Context) (driver.Holder, error) { return f.inner.Inspect(ctx, key) })
}

func (f *faulty) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	id := ""
	if len(asks) > 0 {
		id = asks[0].ID
	}
	return answer(ctx, f.in, "Take", key, id, func(ctx context.Context) (driver.Taken, error) { return f.inner.Take(ctx, key, l, asks) })
}

// TakeOne is recorded as Take.
func (f *faulty) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return answer(ctx, f.in, "Take", key, a.ID, func(ctx context.Context) (driver.TakenOne, error) { return f.inner.TakeOne(ctx, key, l, a) })
}

func (f *faulty) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	return answer(ctx, f.in, "TakeAll", "", "", func(ctx context.Context) ([]driver.Taken, error) { return f.inner.TakeAll(ctx, demands) })
}

func (f *faulty) Reset(ctx context.Context, key string, l driver.Limit) error {
	return f.in.do(ctx, "Reset", key, "", func(ctx context.Context) error { return f.inner.Reset(ctx, key, l) })
}

func (f *faulty) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	return f.in.do(ctx, "Refund", key, id, func(ctx context.Context) error { return f.inner.Refund(ctx, key, l, id, n) })
}

func (f *faulty) Charge(ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
	return answer(ctx, f.in, "Charge", key, "", func(ctx context.Context) (driver.Charged, error) { return f.inner.Charge(ctx, key, l, n) })
}

// Shared gives the part that shares keys. Its calls are recorded as "Shared.TryLock" and so on.
func (f *faulty) Shared() driver.SharedLocker {
	shared := f.inner.Shared()
	return faultyShared{locker{f.in, shared, "Shared."}, innerShared{shared}}
}

// faultyShared is the part of the backend that shares keys, behind an Injector.
type faultyShared struct {
	locker
	innerShared
}

type innerShared struct{ driver.SharedLocker }

func (f faultyShared) Holders(ctx context.Context, key string) ([]driver.Holder, error) {
	return answer(ctx, f.in, "Shared.Holders", key, "", func(ctx context.Context) ([]driver.Holder, error) { return f.innerShared.Holders(ctx, key) })
}

func (f faultyShared) NotifyChanges(ctx context.Context, key string, changed func()) error {
	return f.in.do(ctx, "Shared.NotifyChanges", key, "", func(ctx context.Context) error { return f.innerShared.NotifyChanges(ctx, key, changed) })
}

// locker is what exclusive and shared holds have in common.
type locker struct {
	in   *Injector
	real interface {
		driver.Locker
		driver.Breaker
	}
	of string // before the names of calls
}

func (l locker) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return answer(ctx, l.in, l.of+"TryLock", key, r.ID, func(ctx context.Context) (driver.Grant, error) { return l.real.TryLock(ctx, key, r) })
}

func (l locker) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return answer(ctx, l.in, l.of+"Renew", key, r.ID, func(ctx context.Context) (driver.Grant, error) { return l.real.Renew(ctx, key, r) })
}

func (l locker) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	out, err := answer(ctx, l.in, l.of+"RenewAll", "", "", func(ctx context.Context) ([]driver.Renewal, error) { return l.real.RenewAll(ctx, holds), nil })
	if err != nil {
		out = slices.Repeat([]driver.Renewal{{Err: err}}, len(holds))
	}
	return out
}

func (l locker) Unlock(ctx context.Context, key, id string) error {
	return l.in.do(ctx, l.of+"Unlock", key, id, func(ctx context.Context) error { return l.real.Unlock(ctx, key, id) })
}

func (l locker) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	return l.in.do(ctx, l.of+"UnlockAfter", key, id, func(ctx context.Context) error { return l.real.UnlockAfter(ctx, key, id, d) })
}

func (l locker) Break(ctx context.Context, key, id string) error {
	return l.in.do(ctx, l.of+"Break", key, id, func(ctx context.Context) error { return l.real.Break(ctx, key, id) })
}

func (l locker) BreakNow(ctx context.Context, key, id string) error {
	return l.in.do(ctx, l.of+"BreakNow", key, id, func(ctx context.Context) error { return l.real.BreakNow(ctx, key, id) })
}

// answer is a call that answers with something, unless it fails.
func answer[T any](ctx context.Context, in *Injector, op, key, id string, apply func(context.Context) (T, error)) (T, error) {
	var v, none T
	err := in.do(ctx, op, key, id, func(ctx context.Context) (err error) {
		v, err = apply(ctx)
		return err
	})
	if err != nil {
		return none, err
	}
	return v, nil
}
