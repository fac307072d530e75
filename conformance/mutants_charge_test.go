package conformance_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// Bugs of charges, and of what is given back.
var chargeMutants = []mutant{
	{
		name: "charge of what is left", bug: "a charge debits as many permits as there are, and drops the rest",
		new: charging(func(b charger, ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
			if n > 0 {
				if _, err := b.store.Take(ctx, key, l, []driver.Ask{{N: min(n, l.Max())}}); err != nil {
					return driver.Charged{}, err
				}
				n = 0
			}
			return b.store.Charge(ctx, key, l, n)
		}), killers: []string{"LIMIT-271", "LIMIT-274", "LIMIT-278"},
	}, {
		name: "charge that is denied", bug: "an ask that is forced is treated as any other",
		new: charging(func(b charger, ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
			if n > 0 {
				asks := []driver.Ask{{Min: min(n, l.Max()), N: min(n, l.Max())}}
				if _, err := b.store.Take(ctx, key, l, asks); err != nil {
					return driver.Charged{}, err
				}
				n = 0
			}
			return b.store.Charge(ctx, key, l, n)
		}), killers: []string{"LIMIT-271", "LIMIT-278"},
	}, {
		name: "charge of one client", bug: "what was charged is kept in the client, and not in the store",
		new: func() harness {
			return on(func(s store) driver.Backend { return &ownCharges{store: s, by: make(map[string]int)} })()
		}, killers: []string{"LIMIT-271"},
	}, {
		name: "charge in two steps", bug: "what is left is read, and written less the charge: of charges that come at once one is lost",
		new: charging(func(b charger, ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
			seen, err := b.store.Charge(ctx, key, l, 0)
			if err != nil || n <= 0 {
				return b.store.Charge(ctx, key, l, n)
			}
			time.Sleep(100 * time.Microsecond) // the way to the store and back
			if err := b.store.Reset(ctx, key, l); err != nil {
				return driver.Charged{}, err
			}
			return b.store.Charge(ctx, key, l, l.Max()-seen.Remaining+n)
		}), killers: []string{"LIMIT-272"},
	}, {
		name: "charge sent twice", bug: "the client library repeats a command that it has no reply to",
		new: charging(func(b charger, ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
			if _, err := b.store.Charge(ctx, key, l, n); err != nil {
				return driver.Charged{}, err
			}
			return b.store.Charge(ctx, key, l, n)
		}), killers: []string{"LIMIT-272", "LIMIT-273", "LIMIT-275"},
	}, {
		name: "charge by and by", bug: "charges are sent in the background",
		new: charging(func(b charger, ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
			if n > 0 {
				late := n
				go func() {
					time.Sleep(100 * time.Millisecond)
					_, _ = b.store.Charge(context.WithoutCancel(ctx), key, l, late) // nobody waits for it
				}()
				n = 0
			}
			return b.store.Charge(ctx, key, l, n)
		}), killers: []string{"LIMIT-271", "LIMIT-278"},
	}, {
		name: "return that gives nothing back", bug: "a charge below zero is answered, and not made",
		new: charging(func(b charger, ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
			return b.store.Charge(ctx, key, l, max(n, 0))
		}), killers: []string{"LIMIT-273"},
	}, {
		name: "return that forgets", bug: "a charge below zero resets the limit",
		new: charging(func(b charger, ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
			if n < 0 {
				if err := b.store.Reset(ctx, key, l); err != nil {
					return driver.Charged{}, err
				}
				n = 0
			}
			return b.store.Charge(ctx, key, l, n)
		}), killers: []string{"LIMIT-273"},
	}, {
		name: "debt that a refund erases", bug: "a refund computes the debt anew, from what is reserved",
		new: on(func(s store) driver.Backend { return erasing{s} }), killers: []string{"LIMIT-274"},
	}, {
		name: "debt of one burst", bug: "it is not stored until when a charge is repaid: a smaller burst sees no more of it than itself", sound: "cells",
		new: shelved(cellBug{unpaid: true}), killers: []string{"LIMIT-274"},
	}, {
		name: "charge sent again", bug: "the client library repeats a command whose reply was lost", sound: "network",
		new: networked(true), killers: []string{"LIMIT-276"},
	}, {
		name: "charge cut to 32 bits", bug: "a large charge overflows, and gives back",
		new: charging(func(b charger, ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
			return b.store.Charge(ctx, key, l, int(int32(n)))
		}), killers: []string{"LIMIT-277"},
	},
}

// charging charges in another way.
func charging(as func(b charger, ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error)) func() harness {
	return on(func(s store) driver.Backend { return charger{s, as} })
}

type charger struct {
	store
	as func(b charger, ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error)
}

func (b charger) Charge(ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
	return b.as(b, ctx, key, l, n)
}

// ownCharges keeps what it was charged, and denies by it.
type ownCharges struct {
	store
	mu sync.Mutex
	by map[string]int
}

func (b *ownCharges) Charge(ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := key + l.String()
	c, err := b.store.Charge(ctx, key, l, 0)
	b.by[name] = max(b.by[name]+n, c.Remaining-l.Max())
	if c.Remaining = min(max(c.Remaining-b.by[name], 0), l.Max()); c.Remaining == 0 {
		c.RetryAfter = time.Second
	}
	return c, err
}

// erasing has a refund that resets what is owed.
type erasing struct{ store }

func (b erasing) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	if err := b.store.Refund(ctx, key, l, id, n); err != nil {
		return err
	}
	_, err := b.store.Charge(ctx, key, l, -driver.MaxCharge)
	return err
}

// networked is a store behind a network that loses replies, to which the client library sends a charge again or not.
func networked(again bool) func() harness {
	return func() harness {
		shared := memory.NewStore()
		claims := without(memory.Claims, driver.ScopeProcess, driver.ScopeHosts)
		open := func() store { return &claimer{shared.Open(), claims} }
		return harness{
			Open:   func(conformance.TB) driver.Backend { return open() },
			Claims: claims,
			Faults: &conformance.Faults{Link: func(conformance.TB) (driver.Backend, conformance.Link) {
				l := &lossy{gate: newGate()}
				return caller{open(), l, again}, l
			}},
		}
	}
}

// lossy is a link that loses one reply.
type lossy struct {
	*gate
	drop atomic.Bool
}

func (l *lossy) DropReply() { l.drop.Store(true) }

type caller struct {
	store
	link  *lossy
	again bool
}

func (b caller) Charge(ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
	c, err := b.store.Charge(ctx, key, l, n)
	switch {
	case !b.link.drop.Swap(false):
		return c, err
	case b.again:
		return b.Charge(ctx, key, l, n)
	}
	return driver.Charged{}, errors.New("connection reset")
}
