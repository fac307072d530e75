package middleware

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/coordgo/coord"
)

// MaxPause is the longest pause that a service can ask for.
const MaxPause = time.Hour

// lookEvery is how often a key's pause is looked for in the store.
const lookEvery = time.Second

// storeWithin bounds what a call, or the answer that asked for a pause, waits for the store of pauses.
const storeWithin = 2 * time.Second

// Pauses are times in which nothing is sent, by key. The zero Pauses are ready; they are
// safe for concurrent use.
type Pauses struct {
	mu     sync.Mutex
	until  times
	looked times // when to look in the store again
}

// times are moments by key. Those that have passed are removed when there are twice as many as were left the last time, so that
// a call costs the same however many there are.
type times struct {
	at    map[string]time.Time
	sweep int // the size at which to remove
}

func (t *times) set(key string, at, now time.Time) {
	if len(t.at) >= t.sweep {
		maps.DeleteFunc(t.at, func(_ string, at time.Time) bool { return !at.After(now) })
		t.sweep = max(2*len(t.at), 64)
	}
	if t.at == nil {
		t.at = make(map[string]time.Time)
	}
	t.at[key] = at
}

// PauseStore is what Pauses need of a *coord.Client to be shared.
type PauseStore interface {
	TryLock(ctx context.Context, key string, opts ...coord.LockOption) (*coord.Lock, error)
	Inspect(ctx context.Context, key string) (coord.Holder, error)
}

// Rest is for how long key has to pause yet.
func (p *Pauses) Rest(key string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, ok := p.until.at[key]
	if !ok {
		return 0
	}
	rest := time.Until(until)
	if rest <= 0 {
		delete(p.until.at, key)
		return 0
	}
	return rest
}

// Begin begins or lengthens a pause.
func (p *Pauses) Begin(key string, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if until := now.Add(pause); until.After(p.until.at[key]) {
		p.until.set(key, until, now)
	}
}

// look looks for a pause that another machine was told of, once in a while. An error is no
// pause: a store that is away is the limit's to tell.
func (p *Pauses) look(ctx context.Context, store PauseStore, key string) {
	if store == nil || !p.due(key) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	if h, err := store.Inspect(ctx, pauseKey(key)); err == nil && h.TTL > 0 {
		p.Begin(key, min(h.TTL, MaxPause))
	}
}

// due reports whether to look for key, and counts that as looked.
func (p *Pauses) due(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.looked.at[key].After(now) {
		return false
	}
	p.looked.set(key, now.Add(lookEvery), now)
	return true
}

// pauseKey is the lock that stands for a pause: taken for as long as that lasts.
func pauseKey(key string) string { return coord.Key("pause", key) }

// tell leaves a pause in the store. Where one is already, that counts: when it ends and the service
// wants more, it says so again.
func tell(ctx context.Context, store PauseStore, key string, pause time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWithin)
	defer cancel()
	lock, err := store.TryLock(ctx, pauseKey(key), coord.TTL(pause), coord.MinHold(pause), coord.NoRenew())
	if err != nil {
		return // others learn of it from the service
	}
	_ = lock.Unlock(ctx) // the key stays taken; if this fails, the lease ends it
}
