package permit

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
)

// prefetched is permits of one limit that were taken in advance: a block that is being spent, and
// perhaps the one to be spent after it.
type prefetched struct {
	by    *prefetcher
	key   limitKey
	rule  Rule
	after atomic.Pointer[prefetched] // in the chain

	cur    atomic.Pointer[block]
	direct atomic.Int64 // permits that the store granted to requests themselves

	mu     sync.Mutex // guards what follows, and changes of cur
	next   *block
	asking bool   // a fetch is under way
	epoch  uint64 // counts resets
	over   bool   // it is out of the table
	sizer  sizer
	spent  int64         // permits of blocks that are over
	seen   int64         // permits used when the last sweep came
	idle   time.Duration // since when no more were used; 0: they were
}

// block is permits that were debited and may be spent until ends.
type block struct {
	left atomic.Int64
	_    [56]byte // what all read is not on the line that all write

	n         int // as granted
	low       int64
	ends      clock.Instant
	renew     time.Duration // monotonic: from then on the next block is fetched
	told      time.Duration // monotonic: when the store had answered
	remaining int           // at the store, when it was taken
	reset     time.Duration // ResetAfter, then
	id        string        // "" if it cannot be given back
	renewed   atomic.Bool   // the next block was asked for
}

// shut is what left is, or is near to, once a block is over.
const shut = math.MinInt64 / 2

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

func newPrefetched(by *prefetcher, d *driver.Demand, rule Rule) *prefetched {
	p := &prefetched{by: by, key: limitKey{d.Key, d.Limit}, rule: rule}
	p.sizer.init(&d.Limit, rule, by.Clock.Mono())
	return p
}

// take takes n permits out of the block, and says what is left.
func (l *block) take(n int64) (left int64, ok bool) {
	if l.left.Load() < n {
		return 0, false
	}
	if left = l.left.Add(-n); left >= 0 {
		return left, true
	}
	l.left.Add(n)
	return 0, false
}

// close ends the block and says what is left of it.
func (l *block) close() int {
	return int(max(l.left.Swap(shut), 0))
}

// used is how many were spent of a block that is not over.
func (l *block) used() int64 {
	if l == nil {
		return 0
	}
	return int64(l.n) - max(l.left.Load(), 0)
}

// spend takes n permits out of what was prefetched, and answers in r. The clocks are read after
// the permits were taken out: those of a block that is over by then are lost, not spent.
func (p *prefetched) spend(n int, r *Result) bool {
	l := p.cur.Load()
	for l != nil {
		if left, ok := l.take(int64(n)); ok {
			if now := p.by.Clock.Now(); !l.ends.Reached(now) {
				if left <= l.low || now.Mono >= l.renew {
					p.refill(l)
				}
				r.Allowed, r.Granted, r.Remaining = true, n, l.remaining+int(left)
				r.ResetAfter = max(l.reset-(now.Mono-l.told), 0)
				return true
			}
			l.left.Add(int64(n)) // to be lost with the rest
		}
		was := l
		if l = p.advance(was); l == was {
			return false // it has some, but not as many
		}
	}
	return false
}

// spendRest takes what there is, up to n and at least least, for a request
// that the store has denied.
func (p *prefetched) spendRest(least, n int, r *Result) bool {
	n = min(n, p.left())
	if n > 0 && n >= least && p.spend(n, r) {
		return true
	}
	l := p.cur.Load()
	if l == nil {
		return false
	}
	n = min(n, int(l.left.Load())) // there is more in the next one
	return n > 0 && n >= least && p.spend(n, r)
}

// left is how many permits could be spent now.
func (p *prefetched) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, n := p.by.Clock.Now(), int64(0)
	for _, l := range [...]*block{p.cur.Load(), p.next} {
		if l != nil && !l.ends.Reached(now) {
			n += max(l.left.Load(), 0)
		}
	}
	return int(n)
}

// advance puts the next block in the place of l, if l is spent or over, and gives the
// one that is current then.
func (p *prefetched) advance(l *block) *block {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.cur.Load(); now != l {
		return now
	}
	// Below zero is a request for too much, which is about to put back what it took.
	if l.left.Load() != 0 && !l.ends.Reached(p.by.Clock.Now()) {
		return l
	}
	p.retire(l)
	p.remove(l)
	return p.cur.Load()
}

// retire counts a block that is over and not given back. prefetched.mu is held.
func (p *prefetched) retire(l *block) {
	left := l.close()
	p.spent += int64(l.n - left)
	p.by.ended(p.key, l, left, 0)
}

// put adds a block. prefetched.mu is held.
func (p *prefetched) put(l *block) {
	switch cur := p.cur.Load(); {
	case cur == nil:
		p.cur.Store(l)
	case cur.left.Load() == 0 || cur.ends.Reached(p.by.Clock.Now()):
		p.retire(cur)
		p.cur.Store(l)
	default: // asking keeps a second one from being taken beside it
		if p.next != nil {
			p.retire(p.next)
		}
		p.next = l
	}
}

// drop ends what is prefetched and being fetched, and gives nothing back. table.mu is held.
func (p *prefetched) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
	p.clear(p.retire)
}

// clear ends all blocks by fn. prefetched.mu is held.
func (p *prefetched) clear(fn func(*block)) {
	for _, l := range [...]*block{p.cur.Load(), p.next} {
		if l != nil {
			fn(l)
		}
	}
	p.cur.Store(nil)
	p.next = nil
}

// stop takes it out of use, and says what is to be given back. table.mu is held.
func (p *prefetched) stop(now clock.Instant) (back []leftover) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.clear(func(l *block) { back = p.release(l, now, back) })
	return back
}

// release ends a block, and adds what can be given back of it to back. prefetched.mu is held.
func (p *prefetched) release(l *block, now clock.Instant, back []leftover) []leftover {
	if l.id == "" || l.ends.Reached(now) || l.left.Load() <= 0 {
		p.retire(l)
		return back
	}
	left := l.close()
	p.spent += int64(l.n - left)
	return append(back, leftover{p.key, l, left})
}

// sweep is called from time to time: an entry that nobody asks for gives back what it
// has, and later goes. table.mu is held.
func (p *prefetched) sweep(now clock.Instant) (back []leftover, keep bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := p.used()
	switch {
	case p.asking || used != p.seen:
		p.seen, p.idle = used, 0
		return nil, true
	case p.idle == 0: // since the last sweep, at least
		p.idle = max(now.Mono-p.by.every, 1)
	}
	idle := now.Mono - p.idle
	for _, l := range [...]*block{p.cur.Load(), p.next} {
		if l != nil && (l.ends.Reached(now) || l.id != "" && idle >= p.rule.For/2) {
			back = p.release(l, now, back)
			p.remove(l)
		}
	}
	p.over = idle >= maxIdle && p.cur.Load() == nil
	return back, !p.over
}

// remove takes a block out that has ended. prefetched.mu is held.
func (p *prefetched) remove(l *block) {
	if p.cur.Load() == l {
		p.cur.Store(p.next)
	}
	if p.cur.Load() == p.next || p.next == l {
		p.next = nil
	}
}

// used is how many permits were had until now. prefetched.mu is held.
func (p *prefetched) used() int64 {
	return p.spent + p.direct.Load() + p.cur.Load().used() + p.next.used()
}
