package permit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/internal/partition"
)

// prefetcher makes the calls of a table: they take permits in advance, and give them back.
type prefetcher struct {
	*source
	every time.Duration // how often the table is swept
	name  string        // begins the id of every request
	ids   atomic.Uint64

	mu         sync.Mutex // guards closed, and background against an Add after it
	closed     bool
	background sync.WaitGroup // calls that nobody waits for
}

func newPrefetcher(source *source, every time.Duration) *prefetcher {
	var random [8]byte
	rand.Read(random[:]) // never fails: it ends the program instead
	return &prefetcher{source: source, every: every, name: "lease-" + hex.EncodeToString(random[:]) + "-"}
}

// start makes a call in the background. It is false after close: the call is not made.
func (p *prefetcher) start(call func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.running.Add(1)
	p.background.Add(1)
	go func() {
		defer p.running.Done()
		defer p.background.Done()
		call()
	}()
	return true
}

// close refuses further calls in the background, and waits for those under way, as far as ctx allows.
func (p *prefetcher) close(ctx context.Context) {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	awaitAll(ctx, &p.background)
}

// leftover is what is given back of one block.
type leftover struct {
	key limitKey
	l   *block
	n   int
}

// giveBack refunds, each block once. What the store does not take counts as spent.
func (p *prefetcher) giveBack(ctx context.Context, back []leftover) {
	partition.ForEach(&p.Store.Parts, back, func(lo leftover) string { return lo.key.key }, func(lo leftover) {
		if ctx.Err() != nil || lo.l.ends.Reached(p.Clock.Now()) {
			p.ended(lo.key, lo.l, lo.n, 0)
			return
		}
		returned := 0
		if err := p.Store.Refund(ctx, lo.key.key, lo.key.limit, lo.l.id, lo.n); err == nil {
			returned = lo.n
		}
		p.denied.forget(lo.key.key)
		p.ended(lo.key, lo.l, lo.n, returned)
	})
}

// ended reports a block that is over, with left permits unspent, of which returned were given back.
func (p *prefetcher) ended(key limitKey, l *block, left, returned int) {
	if tell := p.Ended; tell != nil {
		tell(PrefetchEnded{Key: key.key, Limit: key.limit, Spent: l.n - left, Returned: returned, Wasted: left - returned})
	}
}

// id names a request whose permits can be given back.
func (p *prefetcher) id() string {
	return p.name + strconv.FormatUint(p.ids.Add(1), 36)
}
