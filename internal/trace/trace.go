// Package trace tells the observers of a client what it does. A nil [Client], [Call] or [Lock] tells nobody, and costs
// nothing.
package trace

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/observe"
)

// Client tells the observers of one client.
type Client struct {
	Backend, Prefix string
	Clock           *clock.Clock
	Log             *slog.Logger

	tell     observe.Observer // all of them as one, which has every function
	panicked sync.Map         // names of fields

	// Whether an observer has a function for any event of them. What nobody is told of is not looked at.
	locks, limits, store bool
}

// Observe makes c tell the observers of list, of which some may want nothing.
func (c *Client) Observe(list []observe.Observer) {
	for _, one := range list {
		c.locks = c.locks || one.CallBegan != nil || one.CallEnded != nil || one.WaitBegan != nil || one.WaitEnded != nil ||
			one.Acquired != nil || one.Reentered != nil || one.Refused != nil || one.Renewed != nil || one.RenewFailed != nil ||
			one.Lost != nil || one.Released != nil
		c.limits = c.limits || one.Allowed != nil || one.Denied != nil || one.Degraded != nil || one.Charged != nil
		c.store = c.store || one.StoreCalled != nil
	}
	type o = observe.Observer
	c.tell.CallBegan = c.derive(list)
	join(c, list, "CallEnded", func(o *o) *func(context.Context, observe.CallEnded) { return &o.CallEnded })
	join(c, list, "WaitBegan", func(o *o) *func(context.Context, observe.WaitBegan) { return &o.WaitBegan })
	join(c, list, "WaitEnded", func(o *o) *func(context.Context, observe.WaitEnded) { return &o.WaitEnded })
	join(c, list, "Acquired", func(o *o) *func(context.Context, observe.Acquired) { return &o.Acquired })
	join(c, list, "Reentered", func(o *o) *func(context.Context, observe.Reentered) { return &o.Reentered })
	join(c, list, "Refused", func(o *o) *func(context.Context, observe.Refused) { return &o.Refused })
	join(c, list, "Renewed", func(o *o) *func(context.Context, observe.Renewed) { return &o.Renewed })
	join(c, list, "RenewFailed", func(o *o) *func(context.Context, observe.RenewFailed) { return &o.RenewFailed })
	join(c, list, "Lost", func(o *o) *func(context.Context, observe.Lost) { return &o.Lost })
	join(c, list, "Released", func(o *o) *func(context.Context, observe.Released) { return &o.Released })
	join(c, list, "Allowed", func(o *o) *func(context.Context, observe.Decision) { return &o.Allowed })
	join(c, list, "Denied", func(o *o) *func(context.Context, observe.Decision) { return &o.Denied })
	join(c, list, "Degraded", func(o *o) *func(context.Context, observe.Decision) { return &o.Degraded })
	join(c, list, "Charged", func(o *o) *func(context.Context, observe.Decision) { return &o.Charged })
	join(c, list, "LeaseEnded", func(o *o) *func(context.Context, observe.LeaseEnded) { return &o.LeaseEnded })
	join(c, list, "StoreCalled", func(o *o) *func(context.Context, observe.StoreCall) { return &o.StoreCalled })
}

// join makes a field of c.tell of that field of every observer.
func join[E any](c *Client, list []observe.Observer, name string, field func(*observe.Observer) *func(context.Context, E)) {
	var all []func(context.Context, E)
	for i := range list {
		if fn := *field(&list[i]); fn != nil {
			all = append(all, fn)
		}
	}
	*field(&c.tell) = func(ctx context.Context, e E) {
		for _, fn := range all {
			c.protected(name, func() { fn(ctx, e) })
		}
	}
}

// derive is CallBegan of every observer, each under the context of the one before.
func (c *Client) derive(list []observe.Observer) func(context.Context, observe.Call) context.Context {
	return func(ctx context.Context, call observe.Call) context.Context {
		for i := range list {
			if fn := list[i].CallBegan; fn != nil {
				c.protected("CallBegan", func() {
					if derived := fn(ctx, call); derived != nil {
						ctx = derived
					}
				})
			}
		}
		return ctx
	}
}

// protected keeps a mistake in an observer from losing a lock.
func (c *Client) protected(field string, fn func()) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if _, told := c.panicked.LoadOrStore(field, true); !told {
			c.Log.Error("coord: an observer panicked, and the client goes on; more panics of this field are not logged",
				"field", field, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	fn()
}

// Locks reports whether anybody is told of locks and calls.
func (c *Client) Locks() bool { return c != nil && c.locks }

// Limits reports whether anybody is told of what limits decide.
func (c *Client) Limits() bool { return c != nil && c.limits }

// StoreCalled tells of a call on the store. The key has its prefix. It is nil if nobody is told.
func (c *Client) StoreCalled() func(context.Context, observe.StoreCall) {
	if c == nil || !c.store {
		return nil
	}
	return func(ctx context.Context, e observe.StoreCall) {
		e.Key = strings.TrimPrefix(e.Key, c.Prefix)
		c.tell.StoreCalled(ctx, e)
	}
}

// LeaseEnded tells of permits taken in advance that are over. The key has its prefix.
func (c *Client) LeaseEnded(e observe.LeaseEnded) {
	e.Backend, e.Key = c.Backend, strings.TrimPrefix(e.Key, c.Prefix)
	c.tell.LeaseEnded(context.Background(), e)
}

// Decided tells what a limit has answered. Degraded: the failure policy has, for the store could not.
func (c *Client) Decided(ctx context.Context, e observe.Decision, isAllowed, isDegraded bool) {
	e.Backend = c.Backend
	switch {
	case isDegraded:
		c.tell.Degraded(ctx, e)
	case isAllowed:
		c.tell.Allowed(ctx, e)
	default:
		c.tell.Denied(ctx, e)
	}
}

// Charged tells of permits that were debited, or given back.
func (c *Client) Charged(ctx context.Context, e observe.Decision) {
	e.Backend = c.Backend
	c.tell.Charged(ctx, e)
}
