package coord

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
)

// pot has the leased permits of one limit: a lease that is being spent, and perhaps the
// one to be spent after it.
type pot struct {
	book  *leaseBook
	key   flightKey
	rule  PermitLease
	after atomic.Pointer[pot] // in the chain

	cur    atomic.Pointer[lease]
	direct atomic.Int64 // permits that the store granted to asks themselves

	mu     sync.Mutex // guards what follows, and changes of cur
	next   *lease
	asking bool   // a call for a lease is under way
	epoch  uint64 // counts resets
	over   bool   // the pot is out of the book
	sizer  sizer
	spent  int64         // permits of leases that are over
	seen   int64         // permits used when the last sweep came
	idle   time.Duration // since when no more were used; 0: they were
}

// lease is permits that were debited and may be spent until ends.
type lease struct {
	left atomic.Int64
	_    [56]byte // what all read is not on the line that all write

	n         int // as granted
	low       int64
	ends      clock.Instant
	renew     time.Duration // monotonic: from then on the next lease is taken
	told      time.Duration // monotonic: when the store had answered
	remaining int           // at the store, when it was taken
	reset     time.Duration // ResetAfter, then
	id        string        // "" if it cannot be given back
	renewed   atomic.Bool   // the next lease was asked for
}

// shut is what left is, or is near to, once a lease is over.
const shut = math.MinInt64 / 2

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

func newPot(b *leaseBook, d *driver.Demand, rule PermitLease) *pot {
	p := &pot{book: b, key: flightKey{d.Key, d.Limit}, rule: rule}
	p.sizer.init(&d.Limit, rule, b.c.clock.Mono())
	return p
}

// take takes n permits out of the lease, and says what is left.
func (l *lease) take(n int64) (left int64, ok bool) {
	if l.left.Load() < n {
		return 0, false
	}
	if left = l.left.Add(-n); left >= 0 {
		return left, true
	}
	l.left.Add(n)
	return 0, false
}

// close ends the lease and says what is left of it.
func (l *lease) close() int {
	return int(max(l.left.Swap(shut), 0))
}

// used is how many were spent of a lease that is not over.
func (l *lease) used() int64 {
	if l == nil {
		return 0
	}
	return int64(l.n) - max(l.left.Load(), 0)
}

// spend takes n permits out of the pot and answers in r. The clocks are read after
// the permits were taken out: those of a lease that is over by then are lost, not spent.
func (p *pot) spend(n int, r *Result) bool {
	l := p.cur.Load()
	for l != nil {
		if left, ok := l.take(int64(n)); ok {
			if now := p.book.c.clock.Now(); !l.ends.Reached(now) {
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

// spendRest takes what there is out of the pot, up to n and at least least, for an ask
// that the store has denied.
func (p *pot) spendRest(least, n int, r *Result) bool {
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

// peekPot adds to what the store told of itself what this client has of it in advance.
func (c *Client) peekPot(d *driver.Demand, r *Result) {
	b := c.leases.Load()
	if b == nil {
		return
	}
	if p := b.find(d.Key, &d.Limit); p != nil {
		if n := p.left(); n > 0 {
			r.Remaining += n
			r.Allowed, r.RetryAfter = true, 0
		}
	}
}

// left is how many permits could be spent now.
func (p *pot) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, n := p.book.c.clock.Now(), int64(0)
	for _, l := range [...]*lease{p.cur.Load(), p.next} {
		if l != nil && !l.ends.Reached(now) {
			n += max(l.left.Load(), 0)
		}
	}
	return int(n)
}

// advance puts the next lease in the place of l, if l is spent or over, and gives the
// one that is current then.
func (p *pot) advance(l *lease) *lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.cur.Load(); now != l {
		return now
	}
	// Below zero is an ask for too much, which is about to put back what it took.
	if l.left.Load() != 0 && !l.ends.Reached(p.book.c.clock.Now()) {
		return l
	}
	p.retire(l)
	p.remove(l)
	return p.cur.Load()
}

// retire books a lease that is over and not given back. pot.mu is held.
func (p *pot) retire(l *lease) {
	left := l.close()
	p.spent += int64(l.n - left)
	p.book.ended(p.key, l, left, 0)
}

// put adds a lease. pot.mu is held.
func (p *pot) put(l *lease) {
	switch cur := p.cur.Load(); {
	case cur == nil:
		p.cur.Store(l)
	case cur.left.Load() == 0 || cur.ends.Reached(p.book.c.clock.Now()):
		p.retire(cur)
		p.cur.Store(l)
	default: // asking keeps a second one from being taken beside it
		if p.next != nil {
			p.retire(p.next)
		}
		p.next = l
	}
}

// drop ends what is leased and being leased, and gives nothing back. leaseBook.mu is held.
func (p *pot) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
	p.clear(p.retire)
}

// clear ends all leases by fn. pot.mu is held.
func (p *pot) clear(fn func(*lease)) {
	for _, l := range [...]*lease{p.cur.Load(), p.next} {
		if l != nil {
			fn(l)
		}
	}
	p.cur.Store(nil)
	p.next = nil
}

// end takes the pot out of use, and says what is to be given back. leaseBook.mu is held.
func (p *pot) end(now clock.Instant) (back []leftover) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.clear(func(l *lease) { back = p.release(l, now, back) })
	return back
}

// release ends a lease, and adds what can be given back of it to back. pot.mu is held.
func (p *pot) release(l *lease, now clock.Instant, back []leftover) []leftover {
	if l.id == "" || l.ends.Reached(now) || l.left.Load() <= 0 {
		p.retire(l)
		return back
	}
	left := l.close()
	p.spent += int64(l.n - left)
	return append(back, leftover{p.key, l, left})
}

// sweep looks at the pot from time to time: one that nobody asks gives back what it
// has, and later goes. leaseBook.mu is held.
func (p *pot) sweep(now clock.Instant) (back []leftover, keep bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := p.used()
	switch {
	case p.asking || used != p.seen:
		p.seen, p.idle = used, 0
		return nil, true
	case p.idle == 0: // since the last sweep, at least
		p.idle = max(now.Mono-p.book.every, 1)
	}
	idle := now.Mono - p.idle
	for _, l := range [...]*lease{p.cur.Load(), p.next} {
		if l != nil && (l.ends.Reached(now) || l.id != "" && idle >= p.rule.For/2) {
			back = p.release(l, now, back)
			p.remove(l)
		}
	}
	p.over = idle >= potIdle && p.cur.Load() == nil
	return back, !p.over
}

// remove takes a lease out that has ended. pot.mu is held.
func (p *pot) remove(l *lease) {
	if p.cur.Load() == l {
		p.cur.Store(p.next)
	}
	if p.cur.Load() == p.next || p.next == l {
		p.next = nil
	}
}

// used is how many permits were had until now. pot.mu is held.
func (p *pot) used() int64 {
	return p.spent + p.direct.Load() + p.cur.Load().used() + p.next.used()
}
