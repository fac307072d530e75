package coord

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/coordgo/coord/internal/permit"
	"github.com/coordgo/coord/internal/storetrace"
)

// observing is the observers of a Client. It is nil without one, and then nothing
// here is called.
type observing struct {
	c        *Client
	list     []Observer
	panicked sync.Map // names of fields

	// Whether an observer has a function for any event of them. What nobody is told of
	// is not looked at.
	locks, limits, store bool
}

// newObserving is for observers of which some may want nothing.
func newObserving(c *Client, list []Observer) *observing {
	o := &observing{c: c, list: list}
	for i := range list {
		one := &list[i]
		o.locks = o.locks || one.CallBegan != nil || one.CallEnded != nil || one.WaitBegan != nil || one.WaitEnded != nil ||
			one.Acquired != nil || one.Reentered != nil || one.Refused != nil || one.Renewed != nil || one.RenewFailed != nil ||
			one.Lost != nil || one.Released != nil
		o.limits = o.limits || one.Allowed != nil || one.Denied != nil || one.Degraded != nil
		o.store = o.store || one.StoreCalled != nil
	}
	return o
}

// attach changes the client's store to what can be observed, as far as somebody is told. Without observers
// nothing of it is in the way of a call.
func (o *observing) attach(locks *lockDriver, limits *permit.Store) {
	if o.limits || o.store {
		o.c.quick = nil
	}
	if !o.store {
		return
	}
	t := &storetrace.Trace{Clock: o.c.clock, Called: o.called}
	locks.Locker, locks.queuer, locks.direct = t.Locker(locks.Locker), t.Queuer(locks.queuer), t.DirectQueuer(locks.direct)
	locks.batch, locks.delayed = t.BatchRenewer(locks.batch), t.DelayedUnlocker(locks.delayed)
	locks.inspect, locks.breaker = t.Inspector(locks.inspect), t.Breaker(locks.breaker)
	limits.Limiter, limits.One = t.Limiter(limits.Limiter), t.OneTaker(limits.One)
	limits.Multi, limits.Refund = t.MultiLimiter(limits.Multi), t.Refunder(limits.Refund)
}

// called tells of a call on the store. The key has its prefix.
func (o *observing) called(ctx context.Context, op, key string, took time.Duration, err error) {
	tell(o, ctx, "StoreCalled", func(o *Observer) func(context.Context, StoreCall) { return o.StoreCalled },
		StoreCall{Backend: o.c.info.Name, Op: op, Key: strings.TrimPrefix(key, o.c.prefix), Took: took, Err: err})
}

// observesLocks reports whether anybody is told of locks and calls.
func (c *Client) observesLocks() bool { return c.observing != nil && c.observing.locks }

// observesLimits reports whether anybody is told of what limits decide.
func (c *Client) observesLimits() bool { return c.observing != nil && c.observing.limits }

// tell calls one function of every observer.
func tell[E any](o *observing, ctx context.Context, field string, fn func(*Observer) func(context.Context, E), e E) {
	for i := range o.list {
		if f := fn(&o.list[i]); f != nil {
			func() {
				defer o.survive(field)
				f(ctx, e)
			}()
		}
	}
}

// survive keeps a mistake in an observer from losing a lock.
func (o *observing) survive(field string) {
	p := recover()
	if p == nil {
		return
	}
	if _, told := o.panicked.LoadOrStore(field, true); !told {
		o.c.log.Error("coord: an observer panicked, and the client goes on; more panics of this field are not logged",
			"field", field, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
}

// begin tells of a call; its context is for the rest of the call.
func (o *observing) begin(ctx context.Context, c *Call) context.Context {
	for i := range o.list {
		if f := o.list[i].CallBegan; f != nil {
			func() {
				defer o.survive("CallBegan")
				if derived := f(ctx, *c); derived != nil {
					ctx = derived
				}
			}()
		}
	}
	return ctx
}

func (o *observing) end(ctx context.Context, c Call, began time.Duration, err error, panicked bool) {
	e := CallEnded{Call: c, Took: o.c.clock.Mono() - began, Outcome: outcomeOf(err), Err: err, Panicked: panicked}
	if panicked {
		e.Outcome = OutcomeError
	}
	tell(o, ctx, "CallEnded", func(o *Observer) func(context.Context, CallEnded) { return o.CallEnded }, e)
}

func outcomeOf(err error) Outcome {
	if err == nil {
		return OutcomeOK
	}
	for _, known := range outcomes {
		if errors.Is(err, known.err) {
			return known.outcome
		}
	}
	return OutcomeError
}

// lockWatch follows one Lock or TryLock, and then the hold that it took.
type lockWatch struct {
	o      *observing
	key    string
	owner  string
	caller context.Context // as the application gave it
	ctx    context.Context // as the observers made it
	began  time.Duration

	waits     bool          // WaitBegan was told
	waitBegan time.Duration // when
	got       bool          // Acquired was told

	// mu is held while the events of the tenure are told, so that they come in order:
	// by whoever gives it to the call, from before anyone else could know of it until
	// Acquired is told. It guards what follows.
	mu     sync.Mutex
	tenure *tenure // the call's, nil before and after
}

// observedLock is Lock and TryLock under observation.
func (c *Client) observedLock(ctx context.Context, op, key string, opts []LockOption, try bool) (*Lock, error) {
	o := c.observing
	call := Call{Op: op, Backend: c.info.Name, Key: key}
	w := &lockWatch{o: o, key: key, caller: ctx, began: c.clock.Mono()}
	if owner := ownerOf(ctx); owner != nil {
		w.owner = owner.String()
	}
	w.ctx = o.begin(ctx, &call)
	l, err := c.lock(w.ctx, key, opts, try, w)
	switch {
	case err != nil:
		err = c.failLock(op, key, err)
		w.refused(err)
	case !w.got:
		w.entered(l)
	}
	o.end(w.ctx, call, w.began, err, false)
	return l, err
}

// event says which lock it is; t is nil before there is one.
func (w *lockWatch) event(t *tenure) LockEvent {
	e := LockEvent{Backend: w.o.c.info.Name, Key: w.key, Owner: w.owner}
	if t != nil {
		e.ID, e.Token = t.h.id, t.token
	}
	return e
}

// wait tells, once, that the call waits. held is what its client has of the key.
func (w *lockWatch) wait(held string) {
	if w == nil || w.waits {
		return
	}
	w.waits, w.waitBegan = true, w.o.c.clock.Mono()
	tell(w.o, w.ctx, "WaitBegan", func(o *Observer) func(context.Context, WaitBegan) { return o.WaitBegan },
		WaitBegan{LockEvent: w.event(nil), HeldBy: held})
}

// waited tells that a wait is over.
func (w *lockWatch) waited(t *tenure, err error, now time.Duration) {
	if w.waits {
		tell(w.o, w.ctx, "WaitEnded", func(o *Observer) func(context.Context, WaitEnded) { return o.WaitEnded },
			WaitEnded{LockEvent: w.event(t), Waited: now - w.waitBegan, Outcome: outcomeOf(err), Err: err})
	}
}

func (w *lockWatch) refused(err error) {
	now := w.o.c.clock.Mono()
	w.waited(nil, err, now)
	tell(w.o, w.ctx, "Refused", func(o *Observer) func(context.Context, Refused) { return o.Refused },
		Refused{LockEvent: w.event(nil), Waited: now - w.began, Outcome: outcomeOf(err), Err: err})
}

// acquired tells of the grant. mu is held since before anyone else could know the tenure.
func (w *lockWatch) acquired(t *tenure, way Way) {
	now := w.o.c.clock.Mono()
	w.got = true
	w.waited(t, nil, now)
	tell(w.o, w.ctx, "Acquired", func(o *Observer) func(context.Context, Acquired) { return o.Acquired },
		Acquired{LockEvent: w.event(t), Waited: now - w.began, Way: way, TTL: t.ttl()})
}

// entered tells of another handle. The hold's own watch keeps the order.
func (w *lockWatch) entered(l *Lock) {
	t := l.t
	now := w.o.c.clock.Mono()
	w.waited(t, nil, now)
	t.owner.mu.Lock()
	depth := t.depth
	t.owner.mu.Unlock()
	t.seen.inOrder(t, func() {
		tell(w.o, w.ctx, "Reentered", func(o *Observer) func(context.Context, Reentered) { return o.Reentered },
			Reentered{LockEvent: w.event(t), Waited: now - w.began, Depth: depth})
	})
}

// inOrder runs fn, unless the last event of t was told, or none ever is.
func (w *lockWatch) inOrder(t *tenure, fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tenure == t {
		fn()
	}
}

func (w *lockWatch) renewed(t *tenure, g granted, err error) {
	if w == nil {
		return
	}
	now := w.o.c.clock.Now()
	took := now.Mono - g.sent.Mono
	w.inOrder(t, func() {
		if err == nil {
			tell(w.o, w.caller, "Renewed", func(o *Observer) func(context.Context, Renewed) { return o.Renewed },
				Renewed{LockEvent: w.event(t), TTL: g.TTL, Took: took})
			return
		}
		tell(w.o, w.caller, "RenewFailed", func(o *Observer) func(context.Context, RenewFailed) { return o.RenewFailed },
			RenewFailed{LockEvent: w.event(t), Took: took, Left: max(t.deadline().Until(now), 0), Err: err})
	})
}

// tellLoss tells of a loss, if there was one, unless it was told. Whoever comes first tells:
// who found the loss, or an Unlock of what was lost, so that a call that fails for
// a loss does not return before.
func (t *tenure) tellLoss() {
	if t.seen == nil {
		return
	}
	t.h.mu.Lock()
	loss, err := t.loss, t.err
	t.h.mu.Unlock()
	if loss != "" {
		t.seen.lost(t, loss, err)
	}
}

// lost tells of a loss. The tenure has ended.
func (w *lockWatch) lost(t *tenure, reason LossReason, err error) {
	held := w.o.c.clock.Mono() - t.granted.Mono
	w.last(t, func() {
		tell(w.o, w.caller, "Lost", func(o *Observer) func(context.Context, Lost) { return o.Lost },
			Lost{LockEvent: w.event(t), Held: held, Reason: reason, Err: err})
	})
}

// released tells of an Unlock, at ended, and what the store made of it. That the
// store does not know the hold any more is a loss.
func (w *lockWatch) released(ctx context.Context, t *tenure, ended time.Duration, err error) {
	if w == nil {
		return
	}
	if errors.Is(err, ErrLost) {
		w.lost(t, LossRevoked, err)
		return
	}
	w.unlocked(ctx, t, Released{Held: ended - t.granted.Mono, Took: w.o.c.clock.Mono() - ended, Err: err})
}

// handedOver tells of an Unlock, at ended, after which the hold is another's.
func (w *lockWatch) handedOver(ctx context.Context, t *tenure, ended time.Duration) {
	if w != nil {
		w.unlocked(ctx, t, Released{Held: ended - t.granted.Mono, HandedOver: true})
	}
}

func (w *lockWatch) unlocked(ctx context.Context, t *tenure, e Released) {
	e.LockEvent = w.event(t)
	w.last(t, func() {
		tell(w.o, ctx, "Released", func(o *Observer) func(context.Context, Released) { return o.Released }, e)
	})
}

// last tells the last event of t.
func (w *lockWatch) last(t *tenure, fn func()) {
	w.inOrder(t, func() {
		w.tenure = nil
		fn()
	})
}

// expect gives t to the call, whose goroutine has yet to wake up. Until it has told
// Acquired, or that it did not take t, no other event of t is told.
func (w *lockWatch) expect(t *tenure) {
	if w != nil {
		w.mu.Lock()
		w.tenure = t
	}
}

// taken tells, after expect, that the call has t, or with false that it has not.
func (w *lockWatch) taken(t *tenure, way Way, has bool) {
	if w == nil {
		return
	}
	defer w.mu.Unlock()
	if has {
		w.acquired(t, way)
	} else {
		w.tenure = nil
	}
}

// reasonOf is why a hold was lost that the client itself gave up.
func reasonOf(cause error) LossReason {
	switch {
	case errors.Is(cause, ErrMaxHold):
		return LossMaxHold
	case cause == ErrLost:
		return LossExpired
	}
	return LossRevoked
}

// way is how an attempt that was granted came to it.
func (a *attempt) way() Way {
	switch {
	case a.lined:
		return WayQueued
	case a.waits:
		return WayPolled
	case a.queued:
		return WayLocal
	}
	return WayFree
}

// observerOf finds the observers behind a Locker, which may embed a Client.
func observerOf(l Locker) *observing {
	if c, ok := l.(*Client); ok {
		return c.observers()
	}
	if c, ok := l.(interface{ observers() *observing }); ok {
		return c.observers()
	}
	return nil
}

// observers are those of locks and calls, nil without any.
func (c *Client) observers() *observing {
	if c.observesLocks() {
		return c.observing
	}
	return nil
}

// do is Do under observation.
func (o *observing) do(ctx context.Context, l Locker, key string, fn func(context.Context) error, opts []LockOption) (err error) {
	call := Call{Op: "do", Backend: o.c.info.Name, Key: key}
	began, returned := o.c.clock.Mono(), false
	ctx = o.begin(ctx, &call)
	defer func() { o.end(ctx, call, began, err, !returned) }()
	err = doLocked(ctx, l, key, fn, opts)
	returned = true
	return err
}

// tryDo is TryDo under observation.
func (o *observing) tryDo(ctx context.Context, l Locker, key string, fn func(context.Context) error, opts []LockOption) (ran bool, err error) {
	call := Call{Op: "trydo", Backend: o.c.info.Name, Key: key}
	began, returned := o.c.clock.Mono(), false
	ctx = o.begin(ctx, &call)
	defer func() {
		told := err
		if returned && err == nil && !ran {
			told = ErrLocked
		}
		o.end(ctx, call, began, told, !returned)
	}()
	ran, err = tryDoLocked(ctx, l, key, fn, opts)
	returned = true
	return ran, err
}

// decided tells of a limit's answer. An error that is no denial is not told here.
func (o *observing) decided(ctx context.Context, e Decision, r *Result) {
	e.Backend = o.c.info.Name
	e.Granted, e.Remaining, e.RetryAfter = r.Granted, r.Remaining, r.RetryAfter
	switch {
	case r.Degraded != nil:
		e.Err = r.Degraded
		tell(o, ctx, "Degraded", func(o *Observer) func(context.Context, Decision) { return o.Degraded }, e)
	case r.Allowed:
		tell(o, ctx, "Allowed", func(o *Observer) func(context.Context, Decision) { return o.Allowed }, e)
	default:
		tell(o, ctx, "Denied", func(o *Observer) func(context.Context, Decision) { return o.Denied }, e)
	}
}

// observedTake is take under observation.
func (c *Client) observedTake(ctx context.Context, r *Result, op, key string, limit *Limit, least, n int) error {
	began := c.clock.Mono()
	from, err := c.takeThere(ctx, r, op, key, limit, least, n)
	if err == nil && n > 0 {
		c.observing.decided(ctx, Decision{Op: op, Key: key, Limit: *limit, Asked: n, Took: c.clock.Mono() - began, Cached: from == permit.FromMemory, Leased: from == permit.FromPrefetch}, r)
	}
	return err
}

// observedWait is WaitN under observation.
func (c *Client) observedWait(ctx context.Context, key string, limit Limit, n int) error {
	o := c.observing
	call := Call{Op: "wait", Backend: c.info.Name, Key: key, Limit: limit, N: n}
	began := c.clock.Mono()
	ctx = o.begin(ctx, &call)
	r, from, err := c.waitN(ctx, key, limit, n)
	if err == nil || errors.Is(err, ErrLimited) {
		e := Decision{Op: "wait", Key: key, Limit: limit, Asked: n, Took: c.clock.Mono() - began, Leased: from == permit.FromPrefetch, Err: err}
		var told *Error
		if errors.As(err, &told) {
			r.RetryAfter = told.RetryAfter
		}
		r.Remaining = -1
		o.decided(ctx, e, &r)
	}
	o.end(ctx, call, began, err, false)
	return err
}

// reserved tells of a Reserve.
func (o *observing) reserved(ctx context.Context, key string, limit Limit, n int, began time.Duration, r *Reservation, retry time.Duration, err error) {
	e := Decision{Op: "reserve", Key: key, Limit: limit, Asked: n, Took: o.c.clock.Mono() - began}
	result := Result{Remaining: -1, RetryAfter: retry}
	switch {
	case err == nil:
		e.Delay = r.Delay()
		result.Allowed, result.Granted = true, n
	case errors.Is(err, ErrLimited):
		e.Err = err
	default:
		return
	}
	o.decided(ctx, e, &result)
}

// observed tells of an AllowAll.
func (m *multi) observed(ctx context.Context, began time.Duration) {
	took := m.c.clock.Mono() - began
	for i := range m.results {
		d, r := &m.as[i], &m.results[i]
		if d.N > 0 && (r.Allowed || r.RetryAfter > 0) {
			m.c.observing.decided(ctx, Decision{Op: "allowall", Key: d.Key, Limit: d.Limit, Asked: d.N, Took: took, Cached: m.from == permit.FromMemory}, r)
		}
	}
}

// leaseEnded tells of permits taken in advance that are over.
func (o *observing) leaseEnded(e permit.PrefetchEnded) {
	tell(o, context.Background(), "LeaseEnded", func(o *Observer) func(context.Context, LeaseEnded) { return o.LeaseEnded },
		LeaseEnded{
			Backend: o.c.info.Name, Key: strings.TrimPrefix(e.Key, o.c.prefix), Limit: e.Limit,
			Spent: e.Spent, Returned: e.Returned, Wasted: e.Wasted,
		})
}
