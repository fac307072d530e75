package conformance_test

import (
	"context"
	"slices"
	"sync"

	"github.com/coordgo/coord/driver"
)

// Bugs of how losses are told, and of renewals in batches.
var lossMutants = []mutant{
	{
		name: "loss that is never pushed", bug: "loss-push is claimed, and nothing calls the function", sound: "pushing",
		new: pushed(func(notify, string, string) {}), killers: []string{"LOCK-18"},
	}, {
		name: "loss pushed for another key", bug: "the store's name of the key is told, and not the application's", sound: "pushing",
		new: pushed(func(fn notify, key, id string) { fn("lock:"+key, id, driver.ErrNotHeld) }), killers: []string{"LOCK-18"},
	}, {
		name: "batch that renews the first alone", bug: "the loop over a batch ends early, and answers for all", sound: "batching",
		new: on(func(s store) driver.Backend { return firstAlone{s} }), killers: []string{"LOCK-27"},
	}, {
		name: "batch answered in another order", bug: "answers are not in the order of the holds", sound: "batching",
		new: batched(func(answers []driver.Renewal) {
			slices.Reverse(answers)
		}), killers: []string{"LOCK-27"},
	}, {
		name: "batch that fails as one", bug: "one lost hold fails the renewal of all", sound: "batching",
		new: batched(func(answers []driver.Renewal) {
			if i := slices.IndexFunc(answers, func(a driver.Renewal) bool { return a.Err != nil }); i >= 0 {
				err := answers[i].Err
				for j := range answers {
					answers[j] = driver.Renewal{Err: err}
				}
			}
		}), killers: []string{"LOCK-27"},
	},
}

type notify = func(key, id string, cause error)

// pushed is a store that tells a client when another one has ended its hold.
func pushed(tell func(fn notify, key, id string)) func() harness {
	return func() harness {
		owners := new(sync.Map) // id → *pushing
		return claiming(driver.Claims{driver.LossPush}, func(s store) driver.Backend {
			return &pushing{store: s, owners: owners, tell: tell}
		})()
	}
}

type pushing struct {
	store
	owners *sync.Map
	tell   func(fn notify, key, id string)
	mu     sync.Mutex
	fn     notify
}

func (b *pushing) NotifyLost(fn func(key, id string, cause error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fn = fn
}

func (b *pushing) own(id string, err error) {
	if err == nil {
		b.owners.Store(id, b)
	}
}

func (b *pushing) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.TryLock(ctx, key, r)
	b.own(r.ID, err)
	return g, err
}

func (b *pushing) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	g, err := b.store.Lock(ctx, key, r, waits)
	b.own(r.ID, err)
	return g, err
}

func (b *pushing) Unlock(ctx context.Context, key, id string) error {
	err := b.store.Unlock(ctx, key, id)
	owner, ok := b.owners.LoadAndDelete(id)
	if err != nil || !ok || owner == b {
		return err
	}
	other := owner.(*pushing)
	other.mu.Lock()
	fn := other.fn
	other.mu.Unlock()
	if fn != nil {
		b.tell(fn, key, id)
	}
	return nil
}

// batched is a store that renews in batches.
func batched(spoil func([]driver.Renewal)) func() harness {
	return on(func(s store) driver.Backend { return batching{s, spoil} })
}

type batching struct {
	store
	spoil func([]driver.Renewal)
}

func (b batching) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	answers := make([]driver.Renewal, len(holds))
	for i, h := range holds {
		answers[i].Grant, answers[i].Err = b.Renew(ctx, h.Key, h.Request)
	}
	b.spoil(answers)
	return answers
}

type firstAlone struct{ store }

func (b firstAlone) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	answers := make([]driver.Renewal, len(holds))
	renew := b.Renew
	for i, h := range holds {
		answers[i].Grant, answers[i].Err = renew(ctx, h.Key, h.Request)
		renew = idleRenew(b).Renew
	}
	return answers
}
