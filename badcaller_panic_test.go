package coord_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/observe"
)

// panicking is a driver that panics in one method, while armed: before its store has
// applied the call, or after it.
type panicking struct {
	fullStore
	method string
	after  bool
	armed  atomic.Bool
	hits   atomic.Int32
}

func (p *panicking) Info() driver.Info {
	info := p.fullStore.Info()
	info.Claims = append(info.Claims, driver.MinHoldAfterExit)
	return info
}

// in makes one call of a method.
func (p *panicking) in(method string, apply func()) {
	strike := p.method == method && p.armed.Load()
	if strike {
		p.hits.Add(1)
	}
	if strike && !p.after {
		panic("driver: " + method)
	}
	apply()
	if strike {
		panic("driver: " + method)
	}
}

func (p *panicking) TryLock(ctx context.Context, key string, r driver.Request) (g driver.Grant, err error) {
	p.in("TryLock", func() { g, err = p.fullStore.TryLock(ctx, key, r) })
	return g, err
}

func (p *panicking) Lock(ctx context.Context, key string, r driver.Request, waits func()) (g driver.Grant, err error) {
	p.in("Lock", func() { g, err = p.fullStore.Lock(ctx, key, r, waits) })
	return g, err
}

func (p *panicking) Renew(ctx context.Context, key string, r driver.Request) (g driver.Grant, err error) {
	p.in("Renew", func() { g, err = p.fullStore.Renew(ctx, key, r) })
	return g, err
}

func (p *panicking) Unlock(ctx context.Context, key, id string) (err error) {
	p.in("Unlock", func() { err = p.fullStore.Unlock(ctx, key, id) })
	return err
}

func (p *panicking) UnlockAfter(ctx context.Context, key, id string, d time.Duration) (err error) {
	p.in("UnlockAfter", func() { err = p.fullStore.UnlockAfter(ctx, key, id, d) })
	return err
}

func (p *panicking) Inspect(ctx context.Context, key string) (h driver.Holder, err error) {
	p.in("Inspect", func() { h, err = p.fullStore.Inspect(ctx, key) })
	return h, err
}

func (p *panicking) Break(ctx context.Context, key, id string) (err error) {
	p.in("Break", func() { err = p.fullStore.Break(ctx, key, id) })
	return err
}

func (p *panicking) BreakNow(ctx context.Context, key, id string) (err error) {
	p.in("BreakNow", func() { err = p.fullStore.BreakNow(ctx, key, id) })
	return err
}

func (p *panicking) Ping(ctx context.Context) (err error) {
	p.in("Ping", func() { err = p.fullStore.Ping(ctx) })
	return err
}

func (f *panicking) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(f.Take(ctx, key, l, []driver.Ask{a}))
}

func (p *panicking) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (t driver.Taken, err error) {
	p.in("Take", func() { t, err = p.fullStore.Take(ctx, key, l, asks) })
	return t, err
}

func (p *panicking) TakeAll(ctx context.Context, demands []driver.Demand) (t []driver.Taken, err error) {
	p.in("TakeAll", func() { t, err = p.fullStore.TakeAll(ctx, demands) })
	return t, err
}

func (p *panicking) Reset(ctx context.Context, key string, l driver.Limit) (err error) {
	p.in("Reset", func() { err = p.fullStore.Reset(ctx, key, l) })
	return err
}

func (p *panicking) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) (err error) {
	p.in("Refund", func() { err = p.fullStore.Refund(ctx, key, l, id, n) })
	return err
}

// methods are those of a driver that a call of the application reaches, each with uses that
// reach it. shortTTL is the lease of what they lock: what a panic leaves ends with it.
var methods = map[string]func(ctx context.Context, c *coord.Client, other *coord.Client) error{
	"TryLock": func(ctx context.Context, c, _ *coord.Client) error {
		return ignore(c.TryLock(ctx, "k", coord.TTL(shortTTL)))
	},
	"Lock": func(ctx context.Context, c, other *coord.Client) error {
		return whileHeld(ctx, other, func(*coord.Lock) error {
			return ignore(c.Lock(ctx, "k", coord.TTL(shortTTL), coord.WaitAtMost(shortTTL)))
		})
	},
	"Renew": func(ctx context.Context, c, _ *coord.Client) error {
		return coord.Do(ctx, c, "k", func(context.Context) error {
			time.Sleep(shortTTL) // long enough for a renewal, which fails
			return nil
		}, coord.TTL(shortTTL))
	},
	"Unlock": func(ctx context.Context, c, _ *coord.Client) error {
		return coord.Do(ctx, c, "k", work, coord.TTL(shortTTL))
	},
	"UnlockAfter": func(ctx context.Context, c, _ *coord.Client) error {
		return coord.Do(ctx, c, "k", work, coord.TTL(shortTTL), coord.MinHold(shortTTL/2))
	},
	"Inspect": func(ctx context.Context, c, _ *coord.Client) error { return ignore(c.Inspect(ctx, "k")) },
	"Break":   func(ctx context.Context, c, _ *coord.Client) error { return c.Break(ctx, "k", "id") },
	"Ping":    func(ctx context.Context, c, _ *coord.Client) error { return c.Ping(ctx) },
	"Take": func(ctx context.Context, c, _ *coord.Client) error {
		var all [8]error // together, so that some share a call
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				var panicked any
				panicked, all[i] = outcomeOf(func() error { return ignore(c.Allow(ctx, "k", second)) })
				if panicked != nil {
					all[i] = errPanicked
				}
			})
		}
		wg.Wait()
		return errors.Join(all[:]...)
	},
	"TakeAll": func(ctx context.Context, c, _ *coord.Client) error {
		return ignore(c.AllowAll(ctx, coord.Demand{Key: "k", Limit: second, N: 1}, coord.Demand{Key: "l", Limit: second, N: 1}))
	},
	"Reset": func(ctx context.Context, c, _ *coord.Client) error { return c.Reset(ctx, "k", second) },
	"Refund": func(ctx context.Context, c, _ *coord.Client) error {
		spent := coord.Limit{Rate: 1, Per: time.Hour, Burst: 1}
		if err := ignore(c.Allow(ctx, "spent", spent)); err != nil {
			return err
		}
		r, err := c.Reserve(ctx, "spent", spent, 1)
		if err != nil {
			return err
		}
		return r.Cancel(ctx)
	},
}

const shortTTL = 500 * time.Millisecond

var errPanicked = errors.New("it panicked")

// A driver that panics in a call fails that call, which the client may make again. It leaves nothing locked: neither a mutex of the
// client, nor the key, in this client and for others.
func TestDriverPanicsInACall(t *testing.T) {
	for method, use := range methods {
		for _, after := range []bool{false, true} {
			name := method + " before"
			if after {
				name = method + " after"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel() // it waits for leases
				store := memory.NewStore()
				b := &panicking{fullStore: farStore{store.Open()}, method: method, after: after}
				c := newQuietClient(t, b)
				other := newQuietClient(t, store.Open())
				b.armed.Store(true)
				inPatience(t, "the driver was armed", func(ctx context.Context) error {
					panicked, err := outcomeOf(func() error { return use(ctx, c, other) })
					for method == "Renew" && b.hits.Load() == 0 && ctx.Err() == nil { // the machine stalled until there was nothing to renew
						_, _ = outcomeOf(func() error { return use(ctx, c, other) })
					}
					asksAgain := strings.HasPrefix(method, "Unlock")
					if panicked != nil || method != "Renew" && (err == nil) != asksAgain { // a renewal is asked for by the client itself
						t.Errorf("saw the error %v and the panic %v; the client asks again by itself: %v", err, panicked, asksAgain)
					}
					return nil
				})
				b.armed.Store(false)
				if b.hits.Load() == 0 {
					t.Errorf("the driver was not called")
				}
				stillWorks(t, "a panic of the driver in "+name, c, store)
				if err := other.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// An observer that panics in a method costs nobody anything: calls give what they give without it.
func TestObserverPanicsInEveryMethod(t *testing.T) {
	fields := reflect.TypeFor[observe.Observer]()
	for i := range fields.NumField() {
		t.Run(fields.Field(i).Name, func(t *testing.T) {
			t.Parallel() // it waits for a renewal
			var o observe.Observer
			field := reflect.ValueOf(&o).Elem().Field(i)
			field.Set(reflect.MakeFunc(field.Type(), func([]reflect.Value) []reflect.Value { panic("observer") }))
			for name, open := range stores {
				store := memory.NewStore()
				c := newQuietClient(t, open(store), coord.WithObserver(o))
				inPatience(t, "the panics began", func(ctx context.Context) error {
					return refusals(ctx, c, strings.HasPrefix(fields.Field(i).Name, "Renew"))
				})
				stillWorks(t, "a panic of the observer on the store "+name, c, store)
			}
		})
	}
}

// refusals makes calls of which the valid ones of stillWorks tell an observer nothing: those
// that wait, are refused, enter again, are renewed or lost.
func refusals(ctx context.Context, c *coord.Client, renews bool) error {
	one := coord.Per(1, time.Hour)
	held := func(l *coord.Lock) error {
		if _, err := c.TryLock(ctx, "k"); !errors.Is(err, coord.ErrLocked) {
			return errors.Join(errors.New("TryLock of a held key"), err)
		}
		if _, err := c.Lock(ctx, "k", coord.WaitAtMost(time.Millisecond)); !errors.Is(err, coord.ErrLocked) {
			return errors.Join(errors.New("Lock of a held key"), err)
		}
		return nil
	}
	again := func(ctx context.Context) error { return coord.Do(ctx, c, "k", work) }
	lost := func() error {
		l, err := c.Lock(ctx, "k", coord.MaxHold(time.Millisecond))
		if err != nil {
			return err
		}
		<-l.Done()
		if err := l.Unlock(ctx); !errors.Is(err, coord.ErrMaxHold) {
			return errors.Join(errors.New("Unlock after MaxHold"), err)
		}
		return nil
	}
	renewed := func() error {
		if !renews {
			return nil // it takes a second or two
		}
		l, err := c.Lock(ctx, "k", coord.TTL(5*time.Second)) // which a busy machine does not lose
		if err != nil {
			return err
		}
		first := l.Deadline()
		for !l.Deadline().After(first) && l.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		return l.Unlock(ctx)
	}
	return errors.Join(
		whileHeld(ctx, c, held),
		coord.Do(ctx, c, "k", again),
		lost(),
		renewed(),
		ignore(c.Allow(ctx, "one", one)),
		ignore(c.Allow(ctx, "one", one)),
	)
}
