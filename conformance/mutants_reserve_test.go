package conformance_test

import (
	"context"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// Bugs of permits that are granted ahead, and given back.
var reserveMutants = []mutant{
	{
		name: "reservation too far ahead", bug: "MaxDelay is not looked at",
		new: asking(eachAsk(func(a *driver.Ask) {
			if a.MaxDelay > 0 {
				a.MaxDelay = time.Hour
			}
		})), killers: []string{"LIMIT-59"},
	}, {
		name: "delay left out", bug: "permits that fall due later are used at once",
		new: answering(func(_ driver.Limit, _ *driver.Taken, g *driver.Granted) { g.Delay = 0 }), killers: []string{"LIMIT-56", "LIMIT-59"},
	}, {
		name: "refund given twice", bug: "a refund does not remember that it was made",
		new: refunding(func(r *refunds, id string, _ time.Time) bool { return r.seen[id] > 1 }), killers: []string{"LIMIT-59"},
	}, {
		name: "refund of what has fallen due", bug: "permits that may have been used are given back",
		new: refunding(func(r *refunds, id string, now time.Time) bool {
			due, ok := r.due[id]
			return ok && now.After(due)
		}), killers: []string{"LIMIT-54"},
	}, {
		name: "refund of an ask that never was", bug: "a refund trusts its caller",
		new: refunding(func(r *refunds, id string, _ time.Time) bool {
			_, ok := r.due[id]
			return !ok
		}), killers: []string{"LIMIT-59"},
	}, {
		name: "refund that gives nothing back", bug: "a refund is answered, and not made",
		new: on(func(s store) driver.Backend { return idleRefund{s} }), killers: []string{"LIMIT-58", "LIMIT-59", "LIMIT-262", "LIMIT-42"},
	},
}

// refunds is what a mutant knows of requests, shared by its clients.
type refunds struct {
	mu   sync.Mutex
	due  map[string]time.Time
	seen map[string]int
}

// refunding gives back, besides what is right, all permits when too much says so.
func refunding(tooMuch func(r *refunds, id string, now time.Time) bool) func() harness {
	return func() harness {
		shared := &refunds{due: make(map[string]time.Time), seen: make(map[string]int)}
		return on(func(s store) driver.Backend { return generous{s, shared, tooMuch} })()
	}
}

type generous struct {
	store
	refunds *refunds
	tooMuch func(r *refunds, id string, now time.Time) bool
}

func (b generous) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	t, err := b.store.Take(ctx, key, l, asks)
	b.refunds.mu.Lock()
	defer b.refunds.mu.Unlock()
	for i := range t.Asks {
		if t.Asks[i].N > 0 && asks[i].ID != "" {
			b.refunds.due[asks[i].ID] = time.Now().Add(t.Asks[i].Delay)
		}
	}
	return t, err
}

func (b generous) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	b.refunds.mu.Lock()
	b.refunds.seen[id]++
	wrong := b.tooMuch(b.refunds, id, time.Now())
	b.refunds.mu.Unlock()
	if wrong {
		return b.Reset(ctx, key, l)
	}
	return b.store.Refund(ctx, key, l, id, n)
}

type idleRefund struct{ store }

func (idleRefund) Refund(context.Context, string, driver.Limit, string, int) error { return nil }
