package coord

import (
	"context"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
)

// leaseAsk is an ask that wants more permits than its caller: the surplus is a lease. At
// most one of a pot is under way, so that a crowd takes one lease, not one each. It
// flies with other asks, and whatever becomes of its caller, the surplus is for all.
type leaseAsk struct {
	p     *pot
	own   int // permits for the caller
	epoch uint64
	id    string
	sent  clock.Instant // set when the call is sent

	denied bool // the store had nothing
	over   bool // guarded by pot.mu
}

// lease widens ask to one for a lease, if there is reason to. It is nil if not.
func (p *pot) lease(ask *driver.Ask) *leaseAsk {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking || p.over || p.next != nil {
		return nil
	}
	c := p.book.c
	rest := 0 // to be spent first
	if l := p.cur.Load(); l != nil {
		rest = int(max(l.left.Load(), 0))
	}
	more := min(p.sizer.size(c.clock.Mono(), p.used(), rest), p.key.limit.Max()-ask.N)
	if more <= 0 {
		return nil
	}
	la := &leaseAsk{p: p, own: ask.N, epoch: p.epoch}
	ask.N += more
	ask.Min = max(ask.Min, 1)
	if c.limits.refund != nil && p.sizer.window >= 2*p.book.every {
		la.id = p.book.id()
		ask.ID = la.id
	}
	p.asking = true
	return la
}

// landed takes in the answer, and leaves in t what is the caller's. It comes before
// anyone else is told that the call has landed.
func (la *leaseAsk) landed(t *driver.TakenOne) {
	p := la.p
	now := p.book.c.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sizer.learn(t, la.sent.Mono, now.Mono)
	la.end()
	la.denied = t.N == 0
	more := t.N - la.own
	if more <= 0 {
		return
	}
	t.N = la.own
	l := &lease{n: more, told: now.Mono, remaining: t.Remaining, reset: t.ResetAfter, id: la.id, renew: never}
	l.left.Store(int64(more))
	l.ends = la.sent.Add(p.sizer.life(t))
	if more >= 4 {
		l.low = int64(more / 4)
	}
	if p.sizer.window == 0 {
		l.renew = l.ends.Mono - p.rule.For/4
	}
	if p.over || p.epoch != la.epoch || l.ends.Reached(now) {
		l.close()
		p.book.ended(p.key, l, more, 0)
		return
	}
	t.Remaining += more
	p.put(l)
}

// end lets the next lease be asked for. pot.mu is held.
func (la *leaseAsk) end() {
	if !la.over {
		la.over = true
		la.p.asking = false
	}
}

// done is end, for an ask that has not landed.
func (la *leaseAsk) done() {
	la.p.mu.Lock()
	defer la.p.mu.Unlock()
	la.end()
}

// ask asks the store, for a lease too if there is reason to.
func (p *pot) ask(ctx context.Context, d *driver.Demand, ask driver.Ask, t *driver.TakenOne) (origin, error) {
	c := p.book.c
	la := p.lease(&ask)
	if la != nil {
		defer la.done()
	}
	sent := c.clock.Mono()
	from, err := c.flights.take(ctx, d, ask, t, la)
	if err != nil || from == fromLease {
		return from, err
	}
	p.direct.Add(int64(t.N))
	if la == nil {
		now := c.clock.Mono()
		p.mu.Lock()
		p.sizer.learn(t, sent, now)
		p.mu.Unlock()
	}
	return from, nil
}

// refill asks for the next lease in the background, once for each lease.
func (p *pot) refill(l *lease) {
	if l.renewed.Load() || !l.renewed.CompareAndSwap(false, true) {
		return
	}
	p.prefetch()
}

// answered takes in the answer to a request of which no ask was for a lease.
func (p *pot) answered(granted int, taken *driver.Taken, sent clock.Instant) {
	last := driver.TakenOne{Granted: taken.Asks[len(taken.Asks)-1], Remaining: taken.Remaining, ResetAfter: taken.ResetAfter}
	p.direct.Add(int64(granted))
	now := p.book.c.clock.Mono()
	p.mu.Lock()
	p.sizer.learn(&last, sent.Mono, now)
	p.mu.Unlock()
	p.prefetch()
}

// prefetch asks for a lease in the background, if there is reason to.
func (p *pot) prefetch() {
	ask := driver.Ask{Min: 1}
	la := p.lease(&ask)
	if la == nil {
		return
	}
	b := p.book
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		la.done()
		return
	}
	b.background(func() { p.fetch(la, ask) })
}

// fetch is the call of refill. Nobody waits for it: that it failed shows when the lease is
// spent, and the next ask is the store's.
func (p *pot) fetch(la *leaseAsk, ask driver.Ask) {
	c := p.book.c
	defer la.done()
	var err error
	defer c.panics.Catch("permits were taken in advance", &err)
	ctx, cancel := context.WithTimeout(context.Background(), unlockTry)
	defer cancel()
	d := driver.Demand{Key: p.key.key, Limit: p.key.limit, N: ask.N}
	sent, epoch := c.clock.Now(), c.denied.epoch.Load()
	var t driver.TakenOne
	if _, err = c.flights.take(ctx, &d, ask, &t, la); err == nil && la.denied {
		c.denied.remember(&d, ask, &t, sent, epoch)
	}
}
