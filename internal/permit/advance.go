package permit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/observe"
)

// advance has the permits that were taken in advance, by key and limit.
type advance struct {
	*source
	policy     atomic.Pointer[Policy] // nil: nothing is taken in advance
	name       string                 // begins the id of every request
	stopped    <-chan struct{}        // closed when the pool stops
	background sync.WaitGroup         // the requests for blocks, and the sweeper

	mu       sync.Mutex // guards what follows, and all that is prefetched
	by       map[limitKey]*prefetched
	ids      uint64
	closed   bool
	every    time.Duration // how often all is swept
	sweeping bool          // there is a sweeper
	ended    []observe.LeaseEnded
	back     []leftover
}

const (
	// maxPrefetched bounds for how many limits permits are prefetched at once; more are asked of the
	// store each time.
	maxPrefetched = 10_000
	// minSweep bounds how often all is swept.
	minSweep = 10 * time.Millisecond
	// maxIdle is how long a limit is remembered that nobody asks for.
	maxIdle = time.Second
)

func (a *advance) init(source *source, policy *Policy, stopped <-chan struct{}) {
	var random [8]byte
	rand.Read(random[:]) // never fails: it ends the program instead
	a.source, a.name, a.by = source, "lease-"+hex.EncodeToString(random[:])+"-", make(map[limitKey]*prefetched)
	a.stopped = stopped
	if policy != nil && !a.local {
		a.use(policy)
	}
}

// use makes policy the one in use. advance.mu is held, or nobody else knows a.
func (a *advance) use(policy *Policy) {
	a.every = max(policy.shortest()/4, minSweep)
	a.policy.Store(policy)
}

// of is what is prefetched of k, which is made if need be; nil if its limit is not, or if there are too many.
// advance.mu is held.
func (a *advance) of(k limitKey) *prefetched {
	p := a.by[k]
	if p != nil || a.closed || len(a.by) >= maxPrefetched {
		return p
	}
	rule := a.policy.Load().rule(&k.limit)
	if rule.Max <= 1 || k.limit.Max() == 1 {
		return nil
	}
	p = newPrefetched(k, rule)
	p.refunds = a.Store.Refunds && p.window >= 2*a.every
	a.by[k] = p
	if !a.sweeping {
		a.sweeping = true
		every := a.every
		a.background.Go(func() { a.sweepUntilEmpty(every) })
	}
	return p
}

// spend takes up to n permits of k out of what was prefetched. It is false, and takes none, if no block has least. The
// next block is fetched when three quarters are spent.
func (a *advance) spend(k limitKey, least, n int) (r Result, ok bool) {
	if a.policy.Load() == nil || n == 0 {
		return r, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.by[k]
	if p == nil || len(p.blocks) == 0 {
		return r, false
	}
	now := a.Clock.Now()
	b := a.first(p, least, now)
	if b == nil {
		return r, false
	}
	n = min(n, b.left)
	b.left -= n
	p.used(n, now.Mono)
	if b.left <= b.n/4 {
		a.fetch(p, now)
	}
	reset := max(b.reset-(now.Mono-b.told), 0)
	return Result{Allowed: true, Granted: n, Remaining: b.remaining + b.left, ResetAfter: reset}, true
}

// first is the first block that has so many permits; nil if there is none. advance.mu is held.
func (a *advance) first(p *prefetched, least int, now clock.Instant) *block {
	for len(p.blocks) > 0 && p.blocks[0].over(now) {
		a.tells(p, p.blocks[0], 0)
		p.blocks = slices.Delete(p.blocks, 0, 1)
	}
	for _, b := range p.blocks {
		if b.left >= least && !b.over(now) {
			return b
		}
	}
	return nil
}

// addTo adds to what the store told of itself what this client has of it in advance.
func (a *advance) addTo(k limitKey, r *Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.by[k]; p != nil {
		if n := p.left(a.Clock.Now()); n > 0 {
			r.Remaining += n
			r.Allowed, r.RetryAfter = true, 0
		}
	}
}

// note takes in what the store answered last, to requests that were granted so many permits, and fetches a block if
// that is worth it.
func (a *advance) note(k limitKey, granted int, t *driver.TakenOne) {
	if a.policy.Load() == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.of(k); p != nil {
		now := a.Clock.Now()
		p.used(granted, now.Mono)
		p.learn(t, now.Mono)
		a.fetch(p, now)
	}
}

// tells notes that b is over, and that so many of its permits were given back. advance.mu is held.
func (a *advance) tells(p *prefetched, b *block, returned int) {
	if a.Ended != nil {
		a.ended = append(a.ended, observe.LeaseEnded{
			Key: p.key.key, Limit: p.key.limit, Spent: b.n - b.left, Returned: returned, Wasted: b.left - returned,
		})
	}
}

// unlock unlocks advance.mu. Then it tells of the blocks that are over, and gives back what is to be given back.
func (a *advance) unlock() {
	ended, back := a.ended, a.back
	a.ended, a.back = nil, nil
	a.mu.Unlock()
	if len(back) > 0 {
		a.refunds.run(func(ctx context.Context) { a.giveBack(ctx, back) })
	}
	for _, e := range ended {
		a.Ended(e)
	}
}

// sweepUntilEmpty sweeps until nothing is prefetched any more, or the pool stops.
func (a *advance) sweepUntilEmpty(every time.Duration) {
	for every > 0 {
		select {
		case <-time.After(every):
			every = a.sweep()
		case <-a.stopped:
			return
		}
	}
}

// sweep takes out what is over, gives back what nobody asks for, and forgets limits that nobody asks for. next is when
// to sweep again; 0: there is nothing left.
func (a *advance) sweep() (next time.Duration) {
	a.mu.Lock()
	defer a.unlock()
	now := a.Clock.Now()
	for k, p := range a.by {
		idle := now.Mono - p.last
		p.blocks = slices.DeleteFunc(p.blocks, func(b *block) bool {
			if !b.over(now) && (b.id == "" || idle < p.rule.For/2) {
				return false
			}
			a.leave(p, b, now)
			return true
		})
		if len(p.blocks) == 0 && !p.fetching && idle >= maxIdle {
			delete(a.by, k)
		}
	}
	if len(a.by) == 0 {
		a.sweeping = false
		return 0
	}
	return a.every
}

// reset drops what was prefetched of the account that limit has under key, and what is being fetched of it now: the
// store forgets, or has forgotten, that it was taken.
func (a *advance) reset(key string, limit *driver.Limit) {
	if a.policy.Load() == nil {
		return
	}
	a.mu.Lock()
	defer a.unlock()
	for k, p := range a.by {
		if k.key == key && k.limit.Shares(*limit) {
			for _, b := range p.drop() {
				a.tells(p, b, 0)
			}
		}
	}
}

// clear gives back all that is prefetched. advance.mu is held.
func (a *advance) clear() {
	now := a.Clock.Now()
	for _, p := range a.by {
		for _, b := range p.blocks {
			a.leave(p, b, now)
		}
		p.blocks = nil
	}
	clear(a.by)
}

// close gives back all that is prefetched, as far as ctx allows. It comes after the pool has stopped, and waits for
// requests under way: closing the store would lose their replies, and so the permits.
func (a *advance) close(ctx context.Context) {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	awaitAll(ctx, &a.background)
	a.mu.Lock()
	defer a.unlock()
	a.clear()
}

// Prefetch takes permits in advance as rule says, from now on: of the limits named, or of those that no rule names.
// What was taken in advance until now is given back.
func (p *Pool) Prefetch(rule Rule, of []driver.Limit) error {
	a := &p.advance
	a.mu.Lock()
	defer a.unlock()
	policy, err := a.policy.Load().With(rule, of)
	switch {
	case err != nil:
		return err
	case a.closed:
		return driver.ErrClosed
	case !a.local: // a store in this process is quicker
		policy.forget(of)
		a.clear()
		a.use(policy)
	}
	return nil
}
