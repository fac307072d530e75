package permit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/partition"
)

// table has the prefetched permits of a pool, by key and limit. A hot key is looked up a million
// times a second by all processors at once. So readers take no lock: it is a hash table of fixed
// size with chains, and a chain is changed by one atomic store.
type table struct {
	pool   *Pool
	policy *Policy
	seed   maphash.Seed
	name   string // begins the id of every ask
	ids    atomic.Uint64

	chains [chains]atomic.Pointer[prefetched]

	mu       sync.Mutex    // guards what follows, and changes of the chains
	all      []*prefetched // in no order
	closed   bool
	calls    sync.WaitGroup // of the table itself, that are under way; none begins after closed
	sweeping *time.Timer    // runs while all is not empty
	every    time.Duration
	sweeps   int
}

const (
	chains = 16 * 1024 // so that a chain of maxPrefetched is short
	// maxPrefetched bounds for how many limits permits are prefetched at once; more are asked of the
	// store each time.
	maxPrefetched = 10_000
	// minSweep bounds how often the table is swept.
	minSweep = 10 * time.Millisecond
	// maxIdle is how long an entry is kept that nobody asks for.
	maxIdle = time.Second
	// wideSweep is how many sweeps pass before entries without permits are looked at, too.
	wideSweep = 8
)

func newTable(pool *Pool, policy *Policy) *table {
	var random [8]byte
	rand.Read(random[:]) // never fails: it ends the program instead
	b := &table{pool: pool, policy: policy, seed: maphash.MakeSeed(), name: "lease-" + hex.EncodeToString(random[:]) + "-"}
	b.every = b.policy.rest.For
	for _, l := range policy.of {
		if b.every == 0 || l.For < b.every {
			b.every = l.For
		}
	}
	b.every = max(b.every/4, minSweep)
	return b
}

// closeBound is how long a table that was replaced gives permits back.
const closeBound = 2 * time.Second

// Prefetch takes permits in advance as rule says, from now on: of the limits named, or of those
// that no rule names. What was taken in advance until now is given back.
func (pool *Pool) Prefetch(rule Rule, of []driver.Limit) error {
	old, err := pool.replaceTable(rule, of)
	if err != nil || old == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	old.close(ctx)
	return nil
}

// replaceTable makes a new table the one in use, and gives the one before.
func (pool *Pool) replaceTable(rule Rule, of []driver.Limit) (old *table, err error) {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	var policy *Policy
	if old = pool.prefetch.Load(); old != nil {
		policy = old.policy
	}
	if policy, err = policy.With(rule, of); err != nil {
		return nil, err
	}
	policy.forget(of)
	switch {
	case pool.closed: // Stop has locked mu since, or will, and GiveBack then finds the table
		return nil, driver.ErrClosed
	case !pool.local: // a store in this process is quicker
		pool.prefetch.Store(newTable(pool, policy))
	}
	return old, nil
}

// prefetched is what is prefetched for a demand; nil if its limit is not.
func (pool *Pool) prefetched(d *driver.Demand) *prefetched {
	b := pool.prefetch.Load()
	if b == nil || d.N == 0 {
		return nil
	}
	return b.of(d)
}

func (b *table) chain(key string) *atomic.Pointer[prefetched] {
	return &b.chains[maphash.String(b.seed, key)%chains]
}

// find is the entry of key and limit, nil if there is none.
func (b *table) find(key string, limit *driver.Limit) *prefetched {
	for p := b.chain(key).Load(); p != nil; p = p.after.Load() {
		if p.key.key == key && p.key.limit == *limit {
			return p
		}
	}
	return nil
}

// of is the entry for a demand, which it makes if need be; nil if its limit is not prefetched.
func (b *table) of(d *driver.Demand) *prefetched {
	if p := b.find(d.Key, &d.Limit); p != nil {
		return p
	}
	rule := b.policy.rule(&d.Limit)
	if rule.Max <= 1 || d.Limit.Max() == 1 {
		return nil
	}
	return b.add(d, rule)
}

// add makes an entry. It is nil where there are too many.
func (b *table) add(d *driver.Demand, rule Rule) *prefetched {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.find(d.Key, &d.Limit); p != nil {
		return p
	}
	if b.closed || len(b.all) >= maxPrefetched {
		return nil
	}
	p := newPrefetched(b, d, rule)
	head := b.chain(d.Key)
	p.after.Store(head.Load())
	head.Store(p)
	if b.all = append(b.all, p); len(b.all) == 1 {
		if b.sweeping == nil {
			b.sweeping = time.AfterFunc(b.every, b.sweep)
		} else {
			b.sweeping.Reset(b.every)
		}
	}
	return p
}

// each calls fn for every entry, and takes those out for which it is false. table.mu
// is held.
func (b *table) each(fn func(*prefetched) bool) {
	kept := b.all[:0]
	for _, p := range b.all {
		if fn(p) {
			kept = append(kept, p)
		} else {
			b.unchain(p)
		}
	}
	clear(b.all[len(kept):])
	b.all = kept
}

// unchain takes an entry out of its chain. table.mu is held.
func (b *table) unchain(p *prefetched) {
	at := b.chain(p.key.key)
	for at.Load() != p {
		at = &at.Load().after
	}
	at.Store(p.after.Load()) // who stands on p goes on from there
}

// sweep gives back what idle entries have, and drops those that have been idle for long.
func (b *table) sweep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	now := b.pool.Clock.Now()
	b.sweeps++
	var back []leftover
	b.each(func(p *prefetched) (keep bool) {
		if p.cur.Load() == nil && b.sweeps%wideSweep != 0 {
			return true
		}
		left, keep := p.sweep(now)
		back = append(back, left...)
		return keep
	})
	if len(back) > 0 {
		b.background(func() {
			ctx, cancel := context.WithTimeout(context.Background(), refundTry)
			defer cancel()
			b.giveBack(ctx, back)
		})
	}
	if len(b.all) > 0 {
		b.sweeping.Reset(b.every)
	}
}

// background makes a call of the table itself. table.mu is held, and the table is not closed.
func (b *table) background(call func()) {
	b.pool.running.Add(1)
	b.calls.Add(1)
	go func() {
		defer b.pool.running.Done()
		defer b.calls.Done()
		call()
	}()
}

// reset drops what was prefetched of the account that limit has under key, and what is
// being fetched of it now: the store forgets, or has forgotten, that it was taken.
func (b *table) reset(key string, limit *driver.Limit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := b.chain(key).Load(); p != nil; p = p.after.Load() {
		if p.key.key == key && p.key.limit.Shares(*limit) {
			p.drop()
		}
	}
}

// close ends all blocks and gives back what is left of them, as far as ctx allows. It waits for calls under
// way: closing the store would lose their replies, and so the permits, or what is known of them.
func (b *table) close(ctx context.Context) {
	b.mu.Lock()
	b.closed = true
	if b.sweeping != nil {
		b.sweeping.Stop()
	}
	b.mu.Unlock()
	awaitAll(ctx, &b.calls)
	b.mu.Lock()
	now := b.pool.Clock.Now()
	var back []leftover
	b.each(func(p *prefetched) bool {
		back = append(back, p.end(now)...)
		return false
	})
	b.mu.Unlock()
	b.giveBack(ctx, back)
}

// leftover is what is given back of one block.
type leftover struct {
	key limitKey
	l   *block
	n   int
}

// giveBack refunds, each block once. What the store does not take counts as spent.
func (b *table) giveBack(ctx context.Context, back []leftover) {
	pool := b.pool
	partition.ForEach(&pool.Store.Parts, back, func(lo leftover) string { return lo.key.key }, func(lo leftover) {
		if ctx.Err() != nil || lo.l.ends.Reached(pool.Clock.Now()) {
			b.ended(lo.key, lo.l, lo.n, 0)
			return
		}
		returned := 0
		if err := b.refund(ctx, lo); err == nil {
			returned = lo.n
		}
		pool.denied.forget(lo.key.key)
		b.ended(lo.key, lo.l, lo.n, returned)
	})
}

func (b *table) refund(ctx context.Context, lo leftover) (err error) {
	defer b.pool.Panics.Catch("prefetched permits were given back", &err)
	return b.pool.Store.Refund.Refund(ctx, lo.key.key, lo.key.limit, lo.l.id, lo.n)
}

// ended tells of a block that is over, with left permits unspent, of which returned were given back.
func (b *table) ended(key limitKey, l *block, left, returned int) {
	if tell := b.pool.Ended; tell != nil {
		tell(PrefetchEnded{Key: key.key, Limit: key.limit, Spent: l.n - left, Returned: returned, Wasted: left - returned})
	}
}

// id names an ask whose permits can be given back.
func (b *table) id() string {
	return b.name + strconv.FormatUint(b.ids.Add(1), 36)
}
