package permit

import (
	"context"
	"strconv"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/partition"
)

// fetch takes a block in the background, if that is worth it. advance.mu is held.
func (a *advance) fetch(p *prefetched, now clock.Instant) {
	if p.fetching || a.closed || len(p.blocks) > 1 {
		return
	}
	n := p.size(now)
	if n == 0 {
		return
	}
	ask := driver.Ask{Min: 1, N: n}
	if p.refunds {
		a.ids++
		ask.ID = a.name + strconv.FormatUint(a.ids, 36)
	}
	p.fetching = true
	resets := p.resets
	a.background.Go(func() { a.take(p, ask, resets) })
}

// take makes the request for a block. Nobody waits for it: that it failed shows when what is there is spent, and the
// next request goes to the store.
func (a *advance) take(p *prefetched, ask driver.Ask, resets int) {
	defer a.fetched(p)
	ctx, cancel := context.WithTimeout(context.Background(), refundTry)
	defer cancel()
	d := driver.Demand{Key: p.key.key, Limit: p.key.limit, N: ask.N}
	sent, epoch := a.Clock.Now(), a.denied.epoch.Load()
	var t driver.TakenOne
	_, err := a.calls.take(ctx, &d, ask, &t, nil, func(err error) { a.landed(p, &t, err, ask.ID, sent, resets) })
	if err == nil {
		a.learn(&d, ask, &t, sent, epoch)
	}
}

// landed takes in what came of the request for a block. The block is lost if there was a reset meanwhile, and given back if
// no permits are taken in advance any more.
func (a *advance) landed(p *prefetched, t *driver.TakenOne, err error, id string, sent clock.Instant, resets int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.Clock.Now()
	if err != nil {
		p.pause = now.Mono + p.span
		return
	}
	p.learn(t, now.Mono)
	if t.N == 0 {
		return
	}
	b := newBlock(p, t, id, sent, now)
	switch {
	case resets != p.resets:
		a.tells(p, b, 0)
	case a.by[p.key] != p:
		a.leave(p, b, now) // fetched gives it back
	default:
		p.blocks = append(p.blocks, b)
	}
}

// fetched allows the next request for a block.
func (a *advance) fetched(p *prefetched) {
	a.mu.Lock()
	defer a.unlock()
	p.fetching = false
}

// leftover is a block that nobody spends any more, and of which something is left.
type leftover struct {
	p *prefetched
	b *block
}

// leave has what is left of b given back when advance.mu is unlocked, if that can be. advance.mu is held.
func (a *advance) leave(p *prefetched, b *block, now clock.Instant) {
	if b.id == "" || b.over(now) {
		a.tells(p, b, 0)
		return
	}
	a.back = append(a.back, leftover{p, b})
}

// giveBack gives back what is left of blocks. What the store does not take counts as spent.
func (a *advance) giveBack(ctx context.Context, back []leftover) {
	partition.ForEach(&a.Store.Parts, back, func(l leftover) string { return l.p.key.key }, func(l leftover) {
		returned := 0
		if a.refunds.keepTrying(ctx, l.p.key, l.b.id, l.b.left) {
			returned = l.b.left
		}
		a.mu.Lock()
		defer a.unlock()
		a.tells(l.p, l.b, returned)
	})
}
