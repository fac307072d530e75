package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// change is one decision on a limit. fn may run again, when another client's write
// came first.
type change struct {
	l    driver.Limit
	fn   func(s *limits.State, now int64) (dirty bool)
	done chan error
	gone bool // nobody waits for it any more; guarded by cellCache.mu
}

// maxChanges is how many decisions are made at a time.
const maxChanges = 256

// update runs fn on the state of key under l at the leader's time, and stores it if fn says so.
//
// What was read or written last is tried at once, and found out of date by its
// version: a decision costs one round trip while no other client decides on the key.
// A decision that writes nothing is made on what a server says now. A limit that this client
// has not met before is read first or made first, as those before it suggest. Decisions that come
// while one is under way are made together, in the order in which they came.
func (b *backend) update(ctx context.Context, key string, l driver.Limit, fn func(*limits.State, int64) (dirty bool)) error {
	if err := checkHold(key, "limit"); err != nil {
		return err
	}
	if _, err := b.await(ctx); err != nil {
		return err
	}
	if err := b.calibrate(ctx); err != nil {
		return err
	}
	c := b.cells.enter(b.limitPath(key, l))
	defer b.cells.leave(c)
	b.collects()
	ch := &change{l: l, fn: fn, done: make(chan error, 1)}
	if b.cells.add(c, ch) {
		work := func() { b.see(c) }
		if b.wire == nil {
			go work() // the application's connection may outlive this backend
		} else if !b.start(work) {
			b.cells.refuse(c)
		}
	}
	select {
	case err := <-ch.done:
		return err
	case <-ctx.Done():
		return b.cells.withdraw(c, ch, ctx.Err(), fmt.Errorf("%w: %w", driver.ErrNotSent, ctx.Err()))
	case <-b.closing:
		return b.cells.withdraw(c, ch, errClosing, driver.ErrClosed)
	}
}

// add puts a change in line. It is true if a goroutine is wanted that sees to the cell,
// which then has a reference to it.
func (cc *cellCache) add(c *cell, ch *change) bool {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	c.changes = append(c.changes, ch)
	if c.busy {
		return false
	}
	c.busy = true
	c.refs++
	return true
}

// next takes what is in line; nothing ends the goroutine that sees to it.
func (cc *cellCache) next(c *cell) []*change {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	n := min(len(c.changes), maxChanges)
	if n == 0 {
		c.changes, c.busy = nil, false
		c.refs--
		return nil
	}
	batch := c.changes[:n:n]
	c.changes = c.changes[n:]
	return batch
}

// refuse ends what is in line when the backend is closed.
func (cc *cellCache) refuse(c *cell) {
	for batch := cc.next(c); batch != nil; batch = cc.next(c) {
		finish(batch, driver.ErrClosed)
	}
}

func finish(batch []*change, err error) {
	for _, ch := range batch {
		ch.done <- err
	}
}

// withdraw leaves a change to itself. The error is waiting if it was still in line, so that nothing
// came of it.
func (cc *cellCache) withdraw(c *cell, ch *change, sent, waiting error) error {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	ch.gone = true
	for i, other := range c.changes {
		if other == ch {
			// The slice is shared with batches that were taken from its front.
			c.changes = append(append([]*change(nil), c.changes[:i]...), c.changes[i+1:]...)
			return waiting
		}
	}
	return fmt.Errorf("%w: %w", errLeft, sent)
}

// staying gives those of a batch for which somebody waits.
func (cc *cellCache) staying(batch []*change) []*change {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	var out []*change
	for _, ch := range batch {
		if !ch.gone {
			out = append(out, ch)
		}
	}
	return out
}

// see makes the changes of a cell until none is left.
func (b *backend) see(c *cell) {
	for batch := b.cells.next(c); batch != nil; batch = b.cells.next(c) {
		c.turn <- struct{}{} // a TakeAll has it at most as long as its ctx
		err := b.apply(c, batch)
		<-c.turn
		finish(batch, err)
	}
}

// apply makes a batch of changes. It ends early, with nothing done, when nobody waits for it.
func (b *backend) apply(c *cell, batch []*change) error {
	guess := !c.met && b.cells.expectsNew() // that there is no node
	synced := b.alone.Load()                // a follower may show what is old
	for conflicts, current := 0, false; ; {
		if batch = b.cells.staying(batch); len(batch) == 0 {
			return driver.ErrNotSent
		}
		if ready, err := b.ready(); err != nil {
			return err
		} else if !ready {
			if !b.pause(context.Background(), connectPoll) {
				return driver.ErrClosed
			}
			continue
		}
		if !guess && !current && (c.rivals || !c.known || c.node == "") {
			met := c.met
			if err := c.saw(b.look(c.path, c.node)); err != nil {
				return classify(err)
			}
			if current = true; !met {
				b.cells.learnNew(c.node == "")
			}
		}
		next, dirty, err := decide(c.record, b.clock.now(), batch...)
		switch {
		case err != nil:
			return fmt.Errorf("node %s: %w", c.path, err)
		case !dirty && current && synced:
			c.rivals = false
			return nil
		case !dirty: // no write will tell whether that is so
			if !synced {
				if _, err := b.conn.Sync(c.path); err != nil {
					return classify(err)
				}
			}
			synced, current, c.known, guess = true, false, false, false
			continue
		}
		err = b.write(c, next)
		if guess && (err == nil || errors.Is(err, errConflict)) {
			b.cells.learnNew(err == nil)
		}
		if err == nil {
			c.rivals = conflicts > 0
			return nil
		}
		if guess && (errors.Is(err, errConflict) || errors.Is(err, zk.ErrNoAuth)) {
			guess = false // who may not make a node may still write to one
			continue
		}
		if !errors.Is(err, errConflict) {
			return err
		}
		if current { // not just a guess that was out of date
			if !b.pause(context.Background(), b.cells.backoff(conflicts)) {
				return driver.ErrClosed
			}
		}
		conflicts++
		current = false
	}
}

// decide makes changes to a state, and gives the record to be stored if any is dirty.
func decide(r record, now int64, batch ...*change) (next record, dirty bool, err error) {
	var s limits.State
	if len(r.state) > 0 {
		if err := s.UnmarshalBinary(r.state); err != nil {
			return record{}, false, err
		}
	}
	next.until = r.until // and never sooner: no client that has read it is surprised
	for _, ch := range batch {
		if ch.fn(&s, now) {
			dirty = true
			next.until = max(next.until, now+s.Expiry(ch.l, now).Microseconds())
		}
	}
	if dirty {
		next.state, err = s.AppendBinary(nil)
	}
	return next, dirty, err
}

// maxBackoff is the longest pause after another client's write came first.
const maxBackoff = 20 * time.Millisecond

// backoff is a pause after the n-th conflict in a row, from 0: at random, up to as many
// round trips as may have to pass.
func (cc *cellCache) backoff(n int) time.Duration {
	most := min(max(cc.rtt.value(), 50*time.Microsecond)<<min(n, 10), maxBackoff)
	return rand.N(most) + 1
}
