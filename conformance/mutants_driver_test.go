package conformance_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// Bugs of a driver on the way to its server.
var driverMutants = []mutant{
	{
		name: "calls of a driver without a context", bug: "a call waits for its answer, and not for the end of its context", sound: "server",
		new: driving(func(l *layer, _ time.Duration) { l.ctx = unending }), killers: []string{"CORE-02", "LIMIT-205", "LOCK-205"},
	}, {
		name: "calls of a driver with a deadline alone", bug: "a call sets its deadline on the connection, and does not notice a cancellation", sound: "server",
		new: driving(func(l *layer, _ time.Duration) { l.ctx = deadlineAlone }), killers: []string{"CORE-02"},
	}, {
		name: "lost reply told as a refusal", bug: "an error of an attempt is taken for a key that is locked", sound: "server",
		new: driving(func(l *layer, _ time.Duration) {
			l.acquired = func(g driver.Grant, err error) (driver.Grant, error) {
				if err != nil && !driver.Definite(err) {
					err = driver.ErrLocked
				}
				return g, err
			}
		}), killers: []string{"LOCK-43", "LOCK-45", "LOCK-56"},
	}, {
		name: "lease by the clock of the client", bug: "the end of a lease is sent, and not its length (go-redis' ExpireAt)", sound: "server",
		new: requesting(func(r driver.Request, ahead time.Duration) driver.Request {
			r.TTL = max(r.TTL+ahead, time.Millisecond)
			return r
		}), killers: []string{"LOCK-83"},
	}, {
		name: "lease of 32 bits", bug: "the milliseconds of a long TTL overflow", sound: "server",
		new: requesting(func(r driver.Request, _ time.Duration) driver.Request {
			return driver.Request{ID: r.ID, TTL: max(time.Duration(int32(r.TTL.Milliseconds()))*time.Millisecond, time.Millisecond)}
		}), killers: []string{"LOCK-78"},
	}, {
		name: "renewal in two steps", bug: "the id is compared in one step, and the lease written in another, released or not", sound: "server",
		new: driving(func(l *layer, _ time.Duration) {
			l.renew = func(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
				if h, err := l.whole.Inspect(ctx, key); err != nil || h.ID != r.ID || h.Released {
					return driver.Grant{}, errors.Join(err, driver.ErrNotHeld)
				}
				time.Sleep(100 * time.Microsecond) // the way to the store and back
				return l.whole.TryLock(ctx, key, r)
			}
			l.unlock = func(ctx context.Context, key, id string) error {
				time.Sleep(50 * time.Microsecond)
				return l.whole.Unlock(ctx, key, id)
			}
		}), killers: []string{"LOCK-28"},
	}, {
		name: "conflict told as a denial", bug: "who meets another at a key is denied (a WATCH that failed)", sound: "server",
		new: driving(func(l *layer, _ time.Duration) {
			var here atomic.Int64
			l.take = func(ctx context.Context, key string, limit driver.Limit, asks []driver.Ask) (driver.Taken, error) {
				met := here.Add(1) > 1
				defer here.Add(-1)
				time.Sleep(100 * time.Microsecond) // the way to the store and back
				if !met {
					return l.whole.Take(ctx, key, limit, asks)
				}
				t := driver.Taken{Asks: make([]driver.Granted, len(asks))}
				for i := range asks {
					t.Asks[i].RetryAfter = time.Millisecond
				}
				return t, nil
			}
		}), killers: []string{"LIMIT-39"},
	}, {
		name: "bucket that refills twice as fast", bug: "both the call and a timer refill it", sound: "server",
		new: driving(func(l *layer, _ time.Duration) {
			l.take = func(ctx context.Context, key string, limit driver.Limit, asks []driver.Ask) (driver.Taken, error) {
				if limit.Algorithm == driver.TokenBucket {
					limit.Rate *= 2
				}
				return l.whole.Take(ctx, key, limit, asks)
			}
		}), killers: []string{"LIMIT-03", "LIMIT-203", "LIMIT-204", "LIMIT-205"},
	}, {
		name: "debit of a broken connection given back", bug: "what got no answer is taken for not spent, and given back", sound: "server",
		new: driving(func(l *layer, _ time.Duration) { givesBack(l) }), killers: []string{"LIMIT-37"},
	}, {
		name: "token of the driver", bug: "tokens are the count of the driver's own grants", sound: "server",
		new: driving(func(l *layer, _ time.Duration) { countsTokens(l) }), killers: []string{"LOCK-203", "LOCK-204"},
	}, {
		name: "old leader that grants", bug: "a server that was replaced grants what another has granted", sound: "server",
		new: replaced(func(l *layer, failed *atomic.Bool) {
			l.acquired = func(g driver.Grant, err error) (driver.Grant, error) {
				if errors.Is(err, driver.ErrLocked) && failed.Load() {
					return driver.Grant{Token: time.Now().UnixMicro(), TTL: time.Second}, nil
				}
				return g, err
			}
		}), killers: []string{"LOCK-206"},
	}, {
		name: "tokens of a replica", bug: "the server that takes over numbers grants anew", sound: "server",
		new: replaced(func(l *layer, failed *atomic.Bool) {
			l.acquired = func(g driver.Grant, err error) (driver.Grant, error) {
				if failed.Load() {
					g.Token /= 2
				}
				return g, err
			}
		}), killers: []string{"LOCK-206", "LOCK-29"},
	}, {
		name: "release by a replica", bug: "the server that takes over does not compare ids", sound: "server",
		new: replaced(func(l *layer, failed *atomic.Bool) {
			l.unlock = func(ctx context.Context, key, id string) error {
				if h, err := l.whole.Inspect(ctx, key); err == nil && failed.Load() {
					id = h.ID
				}
				return l.whole.Unlock(ctx, key, id)
			}
		}), killers: []string{"LOCK-206"},
	}, {
		name: "debits of a replica", bug: "the server that takes over does not have what was debited before", sound: "server",
		new: replaced(func(l *layer, failed *atomic.Bool) {
			l.take = func(ctx context.Context, key string, limit driver.Limit, asks []driver.Ask) (driver.Taken, error) {
				if failed.Load() {
					key += "'"
				}
				return l.whole.Take(ctx, key, limit, asks)
			}
		}), killers: []string{"LIMIT-206", "LIMIT-15"},
	}, {
		name: "Close that asks the server", bug: "Close waits for an answer, whether there is a server or not", sound: "server",
		new: driving(func(l *layer, _ time.Duration) {
			l.closing = func() { _ = l.whole.Ping(unending(context.Background())) }
		}), killers: []string{"LOCK-93"},
	},
}

// deadlineAlone is ctx without its cancellation.
func deadlineAlone(ctx context.Context) context.Context {
	at, ok := ctx.Deadline()
	if !ok {
		return unending(ctx)
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), at)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// driving makes a harness of a server whose driver has a bug. Its clients' clocks are ahead by so much.
func driving(spoil func(l *layer, ahead time.Duration)) func() harness {
	return served(spoil, nil)
}

// replaced makes a harness of a server whose driver has a bug since a failover.
func replaced(spoil func(l *layer, failed *atomic.Bool)) func() harness {
	return func() harness {
		var failed atomic.Bool
		h := driving(func(l *layer, _ time.Duration) { spoil(l, &failed) })()
		failOver := h.Faults.Failover
		h.Faults.Failover = func(tb conformance.TB) {
			failOver(tb)
			failed.Store(true)
		}
		return h
	}
}

// requesting asks for another hold, and tells of the one that it was asked for.
func requesting(as func(r driver.Request, ahead time.Duration) driver.Request) func() harness {
	return driving(func(l *layer, ahead time.Duration) {
		l.request = func(r driver.Request) driver.Request { return as(r, ahead) }
		l.acquired = func(g driver.Grant, err error) (driver.Grant, error) {
			time.Sleep(2 * time.Millisecond) // the way to the store and back
			return g, err
		}
		l.renew = func(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
			g, err := l.whole.Renew(ctx, key, as(r, ahead))
			g.TTL = r.TTL
			return g, err
		}
	})
}
