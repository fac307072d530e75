package permit

import (
	"context"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
)

// fetch is a request for more permits than its caller wants: the surplus is prefetched. At most one
// for a limit is under way, so that many callers prefetch once, not once each. It is sent together
// with other requests, and whatever becomes of its caller, the surplus is for all.
type fetch struct {
	own    int // permits for the caller
	epoch  uint64
	id     string
	sent   clock.Instant                         // set when the call is sent
	landed func(driver.TakenOne) driver.TakenOne // takes in the answer, and gives what is the caller's

	denied bool // the store had nothing
	over   bool // guarded by prefetched.mu
}

// widen makes ask one for a surplus, if there is reason to. It is nil if not.
func (p *prefetched) widen(ask *driver.Ask) *fetch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking || p.over || p.next != nil {
		return nil
	}
	rest := 0 // to be spent first
	if l := p.cur.Load(); l != nil {
		rest = int(max(l.left.Load(), 0))
	}
	more := min(p.sizer.size(p.by.Clock.Mono(), p.used(), rest), p.key.limit.Max()-ask.N)
	if more <= 0 {
		return nil
	}
	f := &fetch{own: ask.N, epoch: p.epoch}
	f.landed = func(t driver.TakenOne) driver.TakenOne { return p.landed(f, t) }
	ask.N += more
	ask.Min = max(ask.Min, 1)
	if p.by.Store.Refunds && p.sizer.window >= 2*p.by.every {
		f.id = p.by.id()
		ask.ID = f.id
	}
	p.asking = true
	return f
}

// landed takes in the answer to f, and gives what is the caller's. It comes before
// anyone else is told that the call has ended.
func (p *prefetched) landed(f *fetch, t driver.TakenOne) driver.TakenOne {
	now := p.by.Clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sizer.learn(&t, f.sent.Mono, now.Mono)
	p.end(f)
	f.denied = t.N == 0
	more := t.N - f.own
	if more <= 0 {
		return t
	}
	t.N = f.own
	l := &block{n: more, told: now.Mono, remaining: t.Remaining, reset: t.ResetAfter, id: f.id, renew: never}
	l.left.Store(int64(more))
	l.ends = f.sent.Add(p.sizer.life(&t))
	if more >= 4 {
		l.low = int64(more / 4)
	}
	if p.sizer.window == 0 {
		l.renew = l.ends.Mono - p.rule.For/4
	}
	if p.over || p.epoch != f.epoch || l.ends.Reached(now) {
		l.close()
		p.by.ended(p.key, l, more, 0)
		return t
	}
	t.Remaining += more
	p.put(l)
	return t
}

// end allows the next fetch after f. prefetched.mu is held.
func (p *prefetched) end(f *fetch) {
	if !f.over {
		f.over = true
		p.asking = false
	}
}

// failed is end, for a call that may have failed.
func (p *prefetched) failed(f *fetch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(f)
}

// ask asks the store, for a surplus too if there is reason to.
func (p *prefetched) ask(ctx context.Context, d *driver.Demand, ask driver.Ask, t *driver.TakenOne) (Origin, error) {
	f := p.widen(&ask)
	if f != nil {
		defer p.failed(f)
	}
	sent := p.by.Clock.Mono()
	from, err := p.by.calls.take(ctx, d, ask, t, f)
	if err != nil || from == FromPrefetch {
		return from, err
	}
	p.direct.Add(int64(t.N))
	if f == nil {
		now := p.by.Clock.Mono()
		p.mu.Lock()
		p.sizer.learn(t, sent, now)
		p.mu.Unlock()
	}
	return from, nil
}

// refill fetches the next block in the background, once for each block.
func (p *prefetched) refill(l *block) {
	if l.renewed.Load() || !l.renewed.CompareAndSwap(false, true) {
		return
	}
	p.prefetch()
}

// answered takes in the answer to a request that fetched no surplus.
func (p *prefetched) answered(granted int, taken *driver.Taken, sent clock.Instant) {
	last := driver.TakenOne{Granted: taken.Asks[len(taken.Asks)-1], Remaining: taken.Remaining, ResetAfter: taken.ResetAfter}
	p.direct.Add(int64(granted))
	now := p.by.Clock.Mono()
	p.mu.Lock()
	p.sizer.learn(&last, sent.Mono, now)
	p.mu.Unlock()
	p.prefetch()
}

// prefetch fetches a block in the background, if there is reason to.
func (p *prefetched) prefetch() {
	ask := driver.Ask{Min: 1}
	f := p.widen(&ask)
	if f == nil {
		return
	}
	if !p.by.start(func() { p.call(f, ask) }) {
		p.failed(f)
	}
}

// call makes the call of a fetch in the background. Nobody waits for it: that it failed shows when the
// current block is spent, and the next request goes to the store.
func (p *prefetched) call(f *fetch, ask driver.Ask) {
	defer p.failed(f)
	ctx, cancel := context.WithTimeout(context.Background(), refundTry)
	defer cancel()
	d := driver.Demand{Key: p.key.key, Limit: p.key.limit, N: ask.N}
	sent, epoch := p.by.Clock.Now(), p.by.denied.epoch.Load()
	var t driver.TakenOne
	if _, err := p.by.calls.take(ctx, &d, ask, &t, f); err == nil && f.denied {
		p.by.denied.remember(&d, ask, &t, sent, epoch)
	}
}
