package permit

import (
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
)

// prefetched is permits of one limit that were taken in advance: a block that is being spent, and perhaps the one to
// be spent after it. A block has as many permits as were used in as long a time as it lasts. advance.mu guards it.
type prefetched struct {
	key      limitKey
	rule     Rule
	window   time.Duration // permits end with the period of this length in which they were taken; 0: a token bucket
	span     time.Duration // how long a block lasts at most
	refunds  bool          // the store takes back what is not spent
	blocks   []*block
	fetching bool // a block is being fetched
	resets   int  // counts what makes a block that is being fetched void

	last   time.Duration // when permits were used
	began  time.Duration // permits are counted over one span from here on
	count  int
	before int // in the span before

	remaining int           // at the store, of late
	ends      time.Duration // when a period ended, or will; 0: the store has not said
	pause     time.Duration // until then nothing is fetched
}

// block is permits that were debited and may be spent until ends.
type block struct {
	n, left   int
	ends      clock.Instant
	told      time.Duration // when the store had answered
	remaining int           // at the store, when it was taken
	reset     time.Duration // ResetAfter, then
	id        string        // "" if it cannot be given back
}

// The least permits that are worth taking in advance. Those of a window end with the sub-window, often
// before they are spent: what is lost of a small block is more than what it saves.
const (
	leastOfWindow = 16
	leastOfBucket = 2
)

func newPrefetched(k limitKey, rule Rule) *prefetched {
	p := &prefetched{key: k, rule: rule, span: rule.For}
	switch k.limit.Algorithm {
	case driver.SlidingWindow:
		p.window = (k.limit.Per + driver.SubWindows - 1) / driver.SubWindows
	case driver.FixedWindow:
		p.window = k.limit.Per
	}
	if p.window > 0 {
		p.span = min(p.span, p.window)
	}
	return p
}

// newBlock is what the store has granted to a request of id that was sent at sent. A window's permits end with their
// sub-window. All end one percent earlier, by which the clocks may differ in speed; with that a window's bound is kept
// as if all were spent at once. A bucket's bound grows by what is refilled in the meantime.
func newBlock(p *prefetched, t *driver.TakenOne, id string, sent, now clock.Instant) *block {
	life := p.rule.For
	if p.window > 0 {
		life = min(life, t.ValidFor)
	}
	life -= life / 100
	return &block{
		n: t.N, left: t.N, ends: sent.Add(life), told: now.Mono,
		remaining: t.Remaining, reset: t.ResetAfter, id: id,
	}
}

// over reports whether nothing can be spent of b any more.
func (b *block) over(now clock.Instant) bool { return b.left == 0 || b.ends.Reached(now) }

// drop takes out all blocks, and makes the one void that is being fetched.
func (p *prefetched) drop() []*block {
	blocks := p.blocks
	p.blocks, p.resets = nil, p.resets+1
	return blocks
}

// left is how many permits could be spent now.
func (p *prefetched) left(now clock.Instant) (n int) {
	for _, b := range p.blocks {
		if !b.over(now) {
			n += b.left
		}
	}
	return n
}

// used counts permits that were used.
func (p *prefetched) used(n int, now time.Duration) {
	if n == 0 {
		return
	}
	p.roll(now)
	p.count += n
	p.last = now
}

// roll begins the next span, if one is over.
func (p *prefetched) roll(now time.Duration) {
	since := now - p.began
	if since < p.span {
		return
	}
	p.before = 0
	if since < 2*p.span {
		p.before = p.count
	}
	p.count, p.began = 0, now
}

// learn takes in an answer of the store.
func (p *prefetched) learn(t *driver.TakenOne, now time.Duration) {
	p.remaining = t.Remaining
	switch {
	case t.N > 0 && t.ValidFor > 0:
		p.ends = now + t.ValidFor
	case t.N == 0 && t.RetryAfter > 0: // near the limit every permit that is not spent is missed
		p.pause = now + p.key.limit.Per
	}
}

// size is how many permits are worth fetching now: as many as were used in as long a time as they last, less what is
// there, and no more than a share of what the store has. 0: none.
func (p *prefetched) size(now clock.Instant) int {
	if now.Mono < p.pause || p.window > 0 && p.ends == 0 {
		return 0
	}
	p.roll(now.Mono)
	n := max(p.count, p.before)
	if p.window > 0 {
		rest := p.ends - now.Mono
		if rest <= 0 {
			rest += (-rest/p.window + 1) * p.window
		}
		n = int(float64(n) * min(float64(rest)/float64(p.span), 1))
	}
	n = min(n-p.left(now), p.rule.Max, p.remaining/(2*p.rule.Lessees))
	if n < leastOfBucket || p.window > 0 && n < leastOfWindow {
		return 0
	}
	return n
}
