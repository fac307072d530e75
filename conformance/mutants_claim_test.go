package conformance_test

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
)

// Claims that are not kept. Those of tokens and of losses are with their subjects.
var claimMutants = []mutant{
	{
		name: "claim gained in passing", bug: "Info claims what the author never meant to",
		new: on(func(s store) driver.Backend { return boaster{s} }), killers: []string{"CORE-01"},
	}, {
		name: "claims that change", bug: "Info asks the server, and gives another answer the second time",
		new: on(func(s store) driver.Backend { return &fickle{store: s} }), killers: []string{"CORE-01"},
	}, {
		name: "queue claimed and not there", bug: "fair and wake are claimed, and waiters poll",
		new: on(func(s store) driver.Backend { return withoutQueue{s} }), killers: []string{"LOCK-50", "LOCK-51"},
	}, {
		name: "inspect, break and list claimed and not there", bug: "inspect, break and list are claimed, and the methods are missing",
		new: on(func(s store) driver.Backend { return withoutOperator{s} }), killers: []string{"LOCK-95", "LOCK-96", "LOCK-286"},
	}, {
		name: "reserve claimed and not there", bug: "reserve is claimed, and nothing can be given back",
		new: on(func(s store) driver.Backend { return withoutRefund{s} }), killers: []string{"LIMIT-59"},
	}, {
		name: "charge claimed and not there", bug: "charge is claimed, and the method is missing",
		new: on(func(s store) driver.Backend { return withoutCharge{s} }), killers: []string{"LIMIT-271"},
	}, {
		name: "one step claimed and not there", bug: "atomic-multi is claimed, and the method is missing",
		new: on(func(s store) driver.Backend { return withoutMulti{s} }), killers: []string{"LIMIT-40"},
	}, {
		name: "one lease for all holds", bug: "per-hold-ttl is claimed, and each hold lasts as long as the longest of its client",
		new: on(func(s store) driver.Backend { return &session{store: s} }), killers: []string{"LOCK-73"},
	}, {
		name: "state lost in a restart", bug: "durable-restart is claimed, and nothing is written down", sound: "durable",
		new: restarting(false, driver.DurableRestart), killers: []string{"LIMIT-38"},
	}, {
		name: "live holds evicted", bug: "no-eviction is claimed, and a full store drops the oldest entry",
		new: func() harness {
			shared := new(holdsOfAll)
			return on(func(s store) driver.Backend { return evicting{s, shared} })()
		}, killers: []string{"LOCK-80"},
	},
}

type boaster struct{ store }

func (b boaster) Info() driver.Info {
	info := b.store.Info()
	info.Claims = append(info.Claims, driver.DurableRestart)
	return info
}

type fickle struct {
	store
	asked atomic.Int32
}

func (b *fickle) Info() driver.Info {
	info := b.store.Info()
	if b.asked.Add(1) > 1 {
		info.Claims = info.Claims[1:]
	}
	return info
}

type withoutQueue struct{ store }

func (withoutQueue) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	return driver.Grant{}, driver.ErrUnsupported
}

type withoutOperator struct{ store }

func (withoutOperator) Inspect(context.Context, string) (driver.Holder, error) {
	return driver.Holder{}, driver.ErrUnsupported
}

func (withoutOperator) Break(context.Context, string, string) error { return driver.ErrUnsupported }

func (withoutOperator) BreakNow(context.Context, string, string) error { return driver.ErrUnsupported }

func (withoutOperator) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return driver.Unimplemented{}.List(ctx, prefix)
}

type withoutRefund struct{ store }

func (withoutRefund) Refund(context.Context, string, driver.Limit, string, int) error {
	return driver.ErrUnsupported
}

type withoutCharge struct{ store }

func (withoutCharge) Charge(context.Context, string, driver.Limit, int) (driver.Charged, error) {
	return driver.Charged{}, driver.ErrUnsupported
}

type withoutMulti struct{ store }

func (withoutMulti) TakeAll(context.Context, []driver.Demand) ([]driver.Taken, error) {
	return nil, driver.ErrUnsupported
}

// session has one lease for all holds of a client.
type session struct {
	store
	mu      sync.Mutex
	longest time.Duration
}

func (b *session) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	b.mu.Lock()
	b.longest = max(b.longest, r.TTL)
	r.TTL = b.longest
	b.mu.Unlock()
	return b.store.TryLock(ctx, key, r)
}

// holdsOfAll are the holds of a store that has room for a hundred.
type holdsOfAll struct {
	mu    sync.Mutex
	holds []driver.Hold
}

type evicting struct {
	store
	all *holdsOfAll
}

func (b evicting) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.TryLock(ctx, key, r)
	if err != nil {
		return g, err
	}
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	b.all.holds = append(b.all.holds, driver.Hold{Key: key, Request: r})
	if len(b.all.holds) > 100 {
		oldest := b.all.holds[0]
		b.all.holds = b.all.holds[1:]
		_ = b.Unlock(ctx, oldest.Key, oldest.ID) // or it has ended by itself
	}
	return g, err
}
