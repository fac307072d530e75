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
	"github.com/coordgo/coord/internal/shadow"
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
		o.limits = o.limits || one.Allowed != nil || one.Denied != nil || one.Degraded != nil || one.Charged != nil
		o.store = o.store || one.StoreCalled != nil
	}
	return o
}

// called reports a call on the store. The key has its prefix.
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

// watched is a call that observers are told of. It is nil without any.
type watched struct {
	o     *observing
	call  Call
	ctx   context.Context // for the rest of the call, as the observers made it
	began time.Duration
}

// watch tells that a call begins. o may be nil.
func (o *observing) watch(ctx context.Context, call Call) *watched {
	if o == nil {
		return nil
	}
	call.Backend = o.c.info.Name
	w := &watched{o: o, call: call, ctx: ctx, began: o.c.clock.Mono()}
	for i := range o.list {
		if f := o.list[i].CallBegan; f != nil {
			func() {
				defer o.survive("CallBegan")
				if derived := f(w.ctx, call); derived != nil {
					w.ctx = derived
				}
			}()
		}
	}
	return w
}

// under is the context for the rest of a call that was made under ctx.
func (w *watched) under(ctx context.Context) context.Context {
	if w == nil {
		return ctx
	}
	return w.ctx
}

// ended tells that the call has ended, or panicked.
func (w *watched) ended(err error, panicked bool) {
	if w == nil {
		return
	}
	e := CallEnded{Call: w.call, Took: w.o.c.clock.Mono() - w.began, Outcome: outcomeOf(err), Err: err, Panicked: panicked}
	if panicked {
		e.Outcome = OutcomeError
	}
	tell(w.o, w.ctx, "CallEnded", func(o *Observer) func(context.Context, CallEnded) { return o.CallEnded }, e)
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

// decided reports a limit's answer. An error that is no denial is not told here.
func (o *observing) decided(ctx context.Context, e Decision, r *Result) {
	e.Backend, e.Shadow = o.c.info.Name, shadow.In(ctx)
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

// waited reports a WaitN that was granted or denied.
func (o *observing) waited(w *watched, r *Result, from permit.Origin, err error) {
	if err != nil && !errors.Is(err, ErrLimited) {
		return
	}
	var told *Error
	if errors.As(err, &told) {
		r.RetryAfter = told.RetryAfter
	}
	r.Remaining = -1
	c := &w.call
	o.decided(w.ctx, Decision{Op: c.Op, Key: c.Key, Limit: c.Limit, Asked: c.N, Took: o.c.clock.Mono() - w.began, Leased: from == permit.FromPrefetch, Err: err}, r)
}

// reserved reports a Reserve.
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

// observed reports an AllowAll.
func (m *multi) observed(ctx context.Context, began time.Duration) {
	took := m.c.clock.Mono() - began
	for i := range m.results {
		d, r := &m.as[i], &m.results[i]
		if d.N > 0 && (r.Allowed || r.RetryAfter > 0) {
			m.c.observing.decided(ctx, Decision{Op: "allowall", Key: d.Key, Limit: d.Limit, Asked: d.N, Took: took, Cached: m.from == permit.FromMemory}, r)
		}
	}
}

// leaseEnded reports permits taken in advance that are over.
func (o *observing) leaseEnded(e permit.PrefetchEnded) {
	tell(o, context.Background(), "LeaseEnded", func(o *Observer) func(context.Context, LeaseEnded) { return o.LeaseEnded },
		LeaseEnded{
			Backend: o.c.info.Name, Key: strings.TrimPrefix(e.Key, o.c.prefix), Limit: e.Limit,
			Spent: e.Spent, Returned: e.Returned, Wasted: e.Wasted,
		})
}
