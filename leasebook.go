package coord

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

// leaseBook has the leased permits of a Client, in one pot for each key and limit. A hot
// key is looked up a million times a second by all processors at once, so readers take
// no lock: pots hang in chains of a fixed table, and a chain is changed by one
// atomic store.
type leaseBook struct {
	c      *Client
	policy *leasePolicy
	seed   maphash.Seed
	name   string // begins the id of every ask
	ids    atomic.Uint64

	chains [leaseChains]atomic.Pointer[pot]

	mu       sync.Mutex // guards what follows, and changes of the chains
	pots     []*pot     // all of them, in no order
	closed   bool
	calls    sync.WaitGroup // of the book itself, that are under way; none begins after closed
	sweeping *time.Timer    // runs while there are pots
	every    time.Duration
	sweeps   int
}

const (
	leaseChains = 16 * 1024 // so that a chain of maxPots is short
	// maxPots bounds how many limits are leased at once; more are asked of the
	// store as without leases.
	maxPots = 10_000
	// minSweep bounds how often pots are looked at.
	minSweep = 10 * time.Millisecond
	// potIdle is how long a pot is kept that nobody asks.
	potIdle = time.Second
	// wideSweep is how many sweeps pass before pots without a lease are looked at, too.
	wideSweep = 8
)

func newLeaseBook(c *Client, policy *leasePolicy) *leaseBook {
	var random [8]byte
	rand.Read(random[:]) // never fails: it ends the program instead
	b := &leaseBook{c: c, policy: policy, seed: maphash.MakeSeed(), name: "lease-" + hex.EncodeToString(random[:]) + "-"}
	b.every = b.policy.rest.For
	for _, l := range policy.of {
		if b.every == 0 || l.For < b.every {
			b.every = l.For
		}
	}
	b.every = max(b.every/4, minSweep)
	return b
}

// changeLeases puts a new book in the place of the one in use, if there is one.
func (c *Client) changeLeases(lease PermitLease, of []Limit) error {
	old, err := c.replaceBook(lease, of)
	if err != nil || old == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	old.close(ctx)
	return nil
}

// replaceBook makes the new book the one in use, and gives the one before.
func (c *Client) replaceBook(lease PermitLease, of []Limit) (old *leaseBook, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var policy *leasePolicy
	if old = c.leases.Load(); old != nil {
		policy = old.policy
	}
	if policy, err = policy.with(lease, of); err != nil {
		return nil, err
	}
	policy.forget(of)
	switch {
	case c.state.Load() == stateClosed: // Close has locked mu since, or will, and then finds the book
		return nil, ErrClosed
	case !c.denied.off: // a store in this process is quicker
		c.leases.Store(newLeaseBook(c, policy))
	}
	return old, nil
}

// pot is that of a demand; nil if its limit is not leased.
func (c *Client) pot(d *driver.Demand) *pot {
	b := c.leases.Load()
	if b == nil || d.N == 0 {
		return nil
	}
	return b.pot(d)
}

func (b *leaseBook) chain(key string) *atomic.Pointer[pot] {
	return &b.chains[maphash.String(b.seed, key)%leaseChains]
}

// find is the pot of key and limit, if there is one.
func (b *leaseBook) find(key string, limit *driver.Limit) *pot {
	for p := b.chain(key).Load(); p != nil; p = p.after.Load() {
		if p.key.key == key && p.key.limit == *limit {
			return p
		}
	}
	return nil
}

func (b *leaseBook) pot(d *driver.Demand) *pot {
	if p := b.find(d.Key, &d.Limit); p != nil {
		return p
	}
	lease := b.policy.lease(&d.Limit)
	if lease.Max <= 1 || d.Limit.Max() == 1 {
		return nil
	}
	return b.add(d, lease)
}

// add makes a pot. It is nil where there are too many.
func (b *leaseBook) add(d *driver.Demand, lease PermitLease) *pot {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.find(d.Key, &d.Limit); p != nil {
		return p
	}
	if b.closed || len(b.pots) >= maxPots {
		return nil
	}
	p := newPot(b, d, lease)
	head := b.chain(d.Key)
	p.after.Store(head.Load())
	head.Store(p)
	if b.pots = append(b.pots, p); len(b.pots) == 1 {
		if b.sweeping == nil {
			b.sweeping = time.AfterFunc(b.every, b.sweep)
		} else {
			b.sweeping.Reset(b.every)
		}
	}
	return p
}

// each calls fn for every pot, and takes those out for which it is false. leaseBook.mu
// is held.
func (b *leaseBook) each(fn func(*pot) bool) {
	kept := b.pots[:0]
	for _, p := range b.pots {
		if fn(p) {
			kept = append(kept, p)
		} else {
			b.unchain(p)
		}
	}
	clear(b.pots[len(kept):])
	b.pots = kept
}

// unchain takes a pot out of its chain. leaseBook.mu is held.
func (b *leaseBook) unchain(p *pot) {
	at := b.chain(p.key.key)
	for at.Load() != p {
		at = &at.Load().after
	}
	at.Store(p.after.Load()) // who stands on p goes on from there
}

// sweep gives back what idle pots have, and drops pots that have been idle for long.
func (b *leaseBook) sweep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	now := b.c.clock.Now()
	b.sweeps++
	var back []leftover
	b.each(func(p *pot) (keep bool) {
		if p.cur.Load() == nil && b.sweeps%wideSweep != 0 {
			return true
		}
		left, keep := p.sweep(now)
		back = append(back, left...)
		return keep
	})
	if len(back) > 0 {
		b.background(func() {
			ctx, cancel := context.WithTimeout(context.Background(), unlockTry)
			defer cancel()
			b.giveBack(ctx, back)
		})
	}
	if len(b.pots) > 0 {
		b.sweeping.Reset(b.every)
	}
}

// background makes a call of the book itself. leaseBook.mu is held, and the book is not closed.
func (b *leaseBook) background(call func()) {
	b.c.bg.Add(1)
	b.calls.Add(1)
	go func() {
		defer b.c.bg.Done()
		defer b.calls.Done()
		call()
	}()
}

// reset drops what was leased of the account that limit has under key, and what is
// being leased of it now: the store forgets, or has forgotten, that it was taken.
func (b *leaseBook) reset(key string, limit *driver.Limit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := b.chain(key).Load(); p != nil; p = p.after.Load() {
		if p.key.key == key && p.key.limit.Shares(*limit) {
			p.drop()
		}
	}
}

// close ends all leases and gives back what is left of them, as far as ctx allows. It waits for calls under way: closing
// the store would lose their replies, and so a lease, or what is known of one.
func (b *leaseBook) close(ctx context.Context) {
	b.mu.Lock()
	b.closed = true
	if b.sweeping != nil {
		b.sweeping.Stop()
	}
	b.mu.Unlock()
	awaitAll(ctx, &b.calls)
	b.mu.Lock()
	now := b.c.clock.Now()
	var back []leftover
	b.each(func(p *pot) bool {
		back = append(back, p.end(now)...)
		return false
	})
	b.mu.Unlock()
	b.giveBack(ctx, back)
}

// leftover is what is given back of one lease.
type leftover struct {
	key flightKey
	l   *lease
	n   int
}

// giveBack refunds, each lease once. What the store does not take counts as spent.
func (b *leaseBook) giveBack(ctx context.Context, back []leftover) {
	c := b.c
	partition.ForEach(&c.limits.parts, back, func(lo leftover) string { return lo.key.key }, func(lo leftover) {
		if ctx.Err() != nil || lo.l.ends.Reached(c.clock.Now()) {
			b.ended(lo.key, lo.l, lo.n, 0)
			return
		}
		returned := 0
		if err := b.refund(ctx, lo); err == nil {
			returned = lo.n
		}
		c.denied.forget(lo.key.key)
		b.ended(lo.key, lo.l, lo.n, returned)
	})
}

func (b *leaseBook) refund(ctx context.Context, lo leftover) (err error) {
	defer b.c.panics.Catch("leased permits were given back", &err)
	return b.c.limits.refund.Refund(ctx, lo.key.key, lo.key.limit, lo.l.id, lo.n)
}

// ended tells observers of a lease that is over, with left permits unspent, of which
// returned were given back.
func (b *leaseBook) ended(key flightKey, l *lease, left, returned int) {
	if b.c.observing != nil {
		b.c.observing.leaseEnded(key, l, left, returned)
	}
}

// id names an ask whose permits can be given back.
func (b *leaseBook) id() string {
	return b.name + strconv.FormatUint(b.ids.Add(1), 36)
}
