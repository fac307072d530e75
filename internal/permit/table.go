package permit

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
)

// table has the prefetched permits of a pool, by key and limit. A hot key is looked up a million
// times a second by all processors at once. So readers take no lock: it is a hash table of fixed
// size with chains, and a chain is changed by one atomic store.
type table struct {
	by     *prefetcher
	policy *Policy
	seed   maphash.Seed

	chains [chains]atomic.Pointer[prefetched]

	mu       sync.Mutex    // guards what follows, and changes of the chains
	all      []*prefetched // in no order
	closed   bool
	sweeping *time.Timer // runs while all is not empty
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

func newTable(source *source, policy *Policy) *table {
	every := policy.rest.For
	for _, l := range policy.of {
		if every == 0 || l.For < every {
			every = l.For
		}
	}
	return &table{by: newPrefetcher(source, max(every/4, minSweep)), policy: policy, seed: maphash.MakeSeed()}
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
	p := newPrefetched(b.by, d, rule)
	head := b.chain(d.Key)
	p.after.Store(head.Load())
	head.Store(p)
	if b.all = append(b.all, p); len(b.all) == 1 {
		if b.sweeping == nil {
			b.sweeping = time.AfterFunc(b.by.every, b.sweep)
		} else {
			b.sweeping.Reset(b.by.every)
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
	now := b.by.Clock.Now()
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
		b.by.start(func() {
			ctx, cancel := context.WithTimeout(context.Background(), refundTry)
			defer cancel()
			b.by.giveBack(ctx, back)
		})
	}
	if len(b.all) > 0 {
		b.sweeping.Reset(b.by.every)
	}
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
	b.by.close(ctx)
	b.mu.Lock()
	now := b.by.Clock.Now()
	var back []leftover
	b.each(func(p *prefetched) bool {
		back = append(back, p.stop(now)...)
		return false
	})
	b.mu.Unlock()
	b.by.giveBack(ctx, back)
}
