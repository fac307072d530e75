package conformance_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// Bugs of how long a lease lasts.
var leaseMutants = []mutant{
	{
		name: "lease without end", bug: "the lease never ends",
		new: timed(func(d time.Duration) time.Duration { return d + time.Hour }), killers: []string{"LOCK-06", "LOCK-72", "LOCK-57"},
	}, {
		name: "milliseconds taken for seconds", bug: "EXPIRE is given the number meant for PEXPIRE: leases last a thousand times as long",
		new: timed(func(d time.Duration) time.Duration { return 1000 * d }), killers: []string{"LOCK-06", "LOCK-72"},
	}, {
		name: "lease cut to whole seconds", bug: "half a second becomes zero, and zero means for ever (ShedLock on memcached)",
		new: timed(func(d time.Duration) time.Duration {
			if d = d.Truncate(time.Second); d == 0 {
				d = time.Hour
			}
			return d
		}), killers: []string{"LOCK-06", "LOCK-72"},
	}, {
		name: "lease half as long as it says", bug: "the store is asked for less than is reported",
		new: timed(func(d time.Duration) time.Duration {
			if d > 50*time.Millisecond {
				d /= 2
			}
			return d
		}), killers: []string{"LOCK-10", "LOCK-72"},
	}, {
		name: "zero means for ever", bug: "a TTL that is not above zero is stored as no expiry",
		new: timed(func(d time.Duration) time.Duration {
			if d <= 0 {
				d = time.Hour
			}
			return d
		}), killers: []string{"LOCK-70"},
	}, {
		name: "lease counted on another clock", bug: "Since is the server's time, whose clock is ahead: the holder believes in its lease for too long",
		new: on(func(s store) driver.Backend { return sinceAhead{s} }), killers: []string{"LOCK-10"},
	}, {
		name: "renewal that re-creates", bug: "Renew is written as a plain set",
		new: on(func(s store) driver.Backend { return revivingRenew{s} }), killers: []string{"LOCK-24"},
	}, {
		name: "renewal that always says yes", bug: "the error of a renewal is swallowed",
		new: on(func(s store) driver.Backend { return gladRenew{s, new(sync.Map)} }), killers: []string{"LOCK-14", "LOCK-24", "LOCK-32"},
	}, {
		name: "renewal of what has lapsed", bug: "Renew finds the id of the last holder, and does not look at the end of its lease",
		new: on(func(s store) driver.Backend { return lateRenew{s, new(sync.Map)} }), killers: []string{"LOCK-24"},
	}, {
		name: "delayed unlock that can be renewed", bug: "UnlockAfter writes another end of the lease, and leaves it to its holder",
		new: on(func(s store) driver.Backend { return ownedUnlock{s, new(sync.Map)} }), killers: []string{"LOCK-24"},
	}, {
		name: "renewal that extends nothing", bug: "Renew looks at the owner and forgets to prolong the lease",
		new: on(func(s store) driver.Backend { return idleRenew{s} }), killers: []string{"LOCK-20"},
	}, {
		name: "renewal that shortens", bug: "a renewal with a shorter TTL takes back what was promised",
		new: on(func(s store) driver.Backend { return shortRenew{shrinker{s, new(sync.Map)}} }), killers: []string{"LOCK-25"},
	}, {
		name: "repeated attempt that shortens", bug: "a repeated TryLock sets the lease anew, shorter than it was",
		new: on(func(s store) driver.Backend { return shortTry{shrinker{s, new(sync.Map)}} }), killers: []string{"LOCK-25"},
	}, {
		name: "delayed unlock at once", bug: "MinHold is ignored by the store",
		new: on(func(s store) driver.Backend { return hastyUnlock{s} }), killers: []string{"LOCK-74"},
	}, {
		name: "delayed unlock that dies with its client", bug: "MinHold is kept by a timer of the client, which Close runs early",
		new: on(func(s store) driver.Backend { return &timerUnlock{store: s} }), killers: []string{"LOCK-77"},
	}, {
		name: "close that gives back", bug: "Close ends the session or the leases, and with them what is held",
		new: on(func(s store) driver.Backend { return &tidyClose{store: s} }), killers: []string{"LOCK-359"},
	},
}

// timed asks the store for another lease than it says.
func timed(ttl func(time.Duration) time.Duration) func() harness {
	return on(func(s store) driver.Backend { return timedLease{s, ttl} })
}

type timedLease struct {
	store
	ttl func(time.Duration) time.Duration
}

type grantFunc func(context.Context, string, driver.Request) (driver.Grant, error)

func (b timedLease) grant(ctx context.Context, call grantFunc, key string, r driver.Request) (driver.Grant, error) {
	asked := r.TTL
	r.TTL = b.ttl(r.TTL)
	g, err := call(ctx, key, r)
	g.TTL = max(asked, 1)
	return g, err
}

func (b timedLease) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.grant(ctx, b.store.TryLock, key, r)
}

func (b timedLease) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	return b.grant(ctx, func(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
		return b.store.Lock(ctx, key, r, waits)
	}, key, r)
}

func (b timedLease) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.grant(ctx, b.store.Renew, key, r)
}

type sinceAhead struct{ store }

func (b sinceAhead) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.TryLock(ctx, key, r)
	g.Since = time.Now().Add(r.TTL / 4)
	return g, err
}

type revivingRenew struct{ store }

func (b revivingRenew) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.TryLock(ctx, key, r)
}

// lateRenew takes a key again for the id that had it last, and did not give it back.
type lateRenew struct {
	store
	last *sync.Map // key → id
}

func (b lateRenew) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.TryLock(ctx, key, r)
	if err == nil {
		b.last.Store(key, r.ID)
	}
	return g, err
}

func (b lateRenew) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.Renew(ctx, key, r)
	if id, ok := b.last.Load(key); errors.Is(err, driver.ErrNotHeld) && ok && id == r.ID {
		return b.store.TryLock(ctx, key, r)
	}
	return g, err
}

func (b lateRenew) Unlock(ctx context.Context, key, id string) error {
	b.last.CompareAndDelete(key, id)
	return b.store.Unlock(ctx, key, id)
}

// ownedUnlock renews holds whose key it keeps taken.
type ownedUnlock struct {
	store
	kept *sync.Map // id → driver.Grant
}

func (b ownedUnlock) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	h, err := b.Inspect(ctx, key)
	if err == nil && h.ID == id {
		b.kept.Store(id, driver.Grant{Token: int64(h.Token), TTL: d})
	}
	return b.store.UnlockAfter(ctx, key, id, d)
}

func (b ownedUnlock) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if g, ok := b.kept.Load(r.ID); ok {
		return g.(driver.Grant), nil
	}
	return b.store.Renew(ctx, key, r)
}

// gladRenew answers with the token that was granted: a client gives up a hold that is renewed under another.
type gladRenew struct {
	store
	tokens *sync.Map // id → token
}

func (b gladRenew) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.TryLock(ctx, key, r)
	if err == nil {
		b.tokens.Store(r.ID, g.Token)
	}
	return g, err
}

func (b gladRenew) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.Renew(ctx, key, r)
	if token, ok := b.tokens.Load(r.ID); ok && errors.Is(err, driver.ErrNotHeld) {
		return driver.Grant{Token: token.(int64), TTL: r.TTL}, nil
	}
	return g, err
}

type idleRenew struct{ store }

func (b idleRenew) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	h, err := b.Inspect(ctx, key)
	if err == nil && (h.ID != r.ID || h.Released) {
		err = driver.ErrNotHeld
	}
	return driver.Grant{Token: int64(h.Token), TTL: r.TTL}, err
}

// shrinker ends a lease early. The id is then remembered, because the store below it has let it go.
type shrinker struct {
	store
	shrunk *sync.Map // id → driver.Grant
}

func (b shrinker) shrink(ctx context.Context, call grantFunc, key string, r driver.Request) (driver.Grant, error) {
	if g, ok := b.shrunk.Load(r.ID); ok {
		return g.(driver.Grant), nil
	}
	h, err := b.Inspect(ctx, key)
	if err != nil || h.ID != r.ID || h.Released || h.TTL <= r.TTL {
		return call(ctx, key, r)
	}
	g := driver.Grant{Token: int64(h.Token), TTL: r.TTL}
	b.shrunk.Store(r.ID, g)
	return g, b.UnlockAfter(ctx, key, r.ID, r.TTL)
}

type shortRenew struct{ shrinker }

func (b shortRenew) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.shrink(ctx, b.store.Renew, key, r)
}

func (b shortRenew) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if g, ok := b.shrunk.Load(r.ID); ok {
		return g.(driver.Grant), nil
	}
	return b.store.TryLock(ctx, key, r)
}

type shortTry struct{ shrinker }

func (b shortTry) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.shrink(ctx, b.store.TryLock, key, r)
}

type hastyUnlock struct{ store }

func (b hastyUnlock) UnlockAfter(ctx context.Context, key, id string, _ time.Duration) error {
	return b.Unlock(ctx, key, id)
}

// timerUnlock holds on until its timer fires, or the client closes.
type timerUnlock struct {
	store
	mu    sync.Mutex
	later []func()
}

func (b *timerUnlock) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	if _, err := b.Renew(ctx, key, driver.Request{ID: id, TTL: d}); err != nil {
		return err
	}
	end := sync.OnceFunc(func() { _ = b.Unlock(context.Background(), key, id) }) // by Close, or the lease has ended
	time.AfterFunc(d, end)
	b.mu.Lock()
	b.later = append(b.later, end)
	b.mu.Unlock()
	return nil
}

func (b *timerUnlock) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, end := range b.later {
		end()
	}
	return b.store.Close()
}

// tidyClose gives back what it was granted when it is closed.
type tidyClose struct {
	store
	mu    sync.Mutex
	holds []func()
}

func (b *tidyClose) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.TryLock(ctx, key, r)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.holds = append(b.holds, func() { _ = b.Unlock(context.Background(), key, r.ID) })
	}
	return g, err
}

func (b *tidyClose) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, end := range b.holds {
		end()
	}
	return b.store.Close()
}
