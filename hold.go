package coord

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/partition"
)

// hold is what this client has at the store: a lease on a key under an id. Its
// tenure is who has it inside the client.
type hold struct {
	c    *Client
	name string // the key as given
	key  string // the key with prefix
	id   string
	cfg  lockConfig // as the store was asked

	stored int64 // the store's fencing value
	sends  int   // earlier calls of this id whose outcome was never known
	ghost  clock.Instant
	turn   time.Duration // until when it is handed over, on the monotonic clock

	// guarded by Client.mu
	slot      *slot
	handOvers int

	deadline clock.Atomic // until when the lease is certain; written under mu, only moves on
	over     atomic.Bool  // its last tenure has ended; written under mu

	mu       sync.Mutex // guards what follows, and every tenure
	ttl      time.Duration
	renewAt  clock.Instant
	renewing bool
	tenure   *tenure // the one that has it, or the last that had

	// guarded by scheduler.mu
	next      time.Duration // when the scheduler looks again
	slack     time.Duration // how much earlier it may
	heapIndex int

	first tenure
}

// tenure is one local holder's time with a hold. A hold that is handed over
// inside the client has one tenure after the other, each with the next token;
// a handle of an earlier one never speaks for a later. Its fields are guarded by
// hold.mu unless they never change.
type tenure struct {
	h       *hold
	cfg     *lockConfig // as its holder asked
	token   Token
	owner   *owner
	granted clock.Instant // when the grant had arrived: not before the store made it
	seen    *lockWatch    // nil unless observed
	endBy   clock.Instant // MaxHold; zero: none

	over     atomic.Bool   // err is set, and what follows it
	err      error         // why it is over; nil while it is held
	loss     LossReason    // likewise, as observers are told; "" unless it was lost
	lastEnd  clock.Instant // the deadline that it had when it ended
	lastTTL  time.Duration
	done     chan struct{}
	watchers []*watcher

	first Lock
	// guarded by owner.mu; without an owner there is one handle, the first
	depth int    // handles not yet unlocked
	spare []Lock // handles for re-entry, made a few at a time
}

func (h *hold) ttlNow() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ttl
}

// current is the tenure that has the hold, or the last that had.
func (h *hold) current() *tenure {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tenure
}

// ttl is the lease as the tenure knew it last: later renewals are another's.
func (t *tenure) ttl() time.Duration {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	if t.err != nil {
		return t.lastTTL
	}
	return t.h.ttl
}

// deadline is until when the tenure is certain, or was when it ended.
func (t *tenure) deadline() clock.Instant {
	d := t.h.deadline.Load().Earlier(t.endBy)
	if t.over.Load() { // then d may be of a later tenure
		return t.lastEnd
	}
	return d
}

// closedChan is the Done of what ended before anyone asked.
var closedChan = func() chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

func (t *tenure) doneChan() <-chan struct{} {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	if t.done == nil {
		if t.err != nil {
			t.done = closedChan
		} else {
			t.done = make(chan struct{})
		}
	}
	return t.done
}

// check is nil while the tenure holds. It looks at the clocks: what is past
// its deadline is lost now, whether or not the scheduler has run.
func (t *tenure) check() error { return t.checkAt(t.h.c.clock.Now()) }

func (t *tenure) checkAt(now clock.Instant) error {
	if t.over.Load() {
		return t.ended()
	}
	if cause := t.overdue(now); cause != nil {
		t.h.lose(t, cause)
		return t.ended()
	}
	return nil
}

// overdue says why the tenure cannot be held at now.
func (t *tenure) overdue(now clock.Instant) error {
	switch {
	case t.endBy != clock.Instant{} && t.endBy.Reached(now):
		return ErrMaxHold
	case t.h.deadline.Load().Reached(now):
		return ErrLost
	}
	return nil
}

// lapsed is overdue by the monotonic clock alone.
func (t *tenure) lapsed(mono time.Duration) bool {
	return mono >= t.h.deadline.Mono() || t.endBy.Mono != 0 && mono >= t.endBy.Mono
}

func (t *tenure) ended() error {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	return t.err
}

// end ends the hold, and the tenure that has it, with err, and a reason if that is a loss:
// Done closes and contexts are cancelled before it returns. If t is given and does not have the
// hold any more, its end is no end of the hold. It gives the tenure that it ended,
// nil if there was none to end.
func (h *hold) end(t *tenure, err error, loss LossReason) *tenure {
	h.mu.Lock()
	last := h.tenure
	if last.err != nil || t != nil && t != last {
		h.mu.Unlock()
		return nil
	}
	h.over.Store(true)
	watchers := last.finish(err)
	last.loss = loss
	h.mu.Unlock()
	cancelAll(watchers, err)
	return last
}

// finish ends the tenure and closes Done. It gives the contexts that the caller
// is to cancel after the mutex is free. hold.mu is held.
func (t *tenure) finish(err error) []*watcher {
	t.lastEnd, t.lastTTL = t.deadline(), t.h.ttl
	t.err = err
	t.over.Store(true)
	if t.done != nil {
		close(t.done)
	}
	watchers := t.watchers
	t.watchers = nil
	return watchers
}

func cancelAll(watchers []*watcher, err error) {
	for _, w := range watchers {
		w.cancel(err)
	}
}

func (t *tenure) watch(w *watcher) {
	t.h.mu.Lock()
	err := t.err
	if err == nil {
		w.at = len(t.watchers)
		t.watchers = append(t.watchers, w)
	}
	t.h.mu.Unlock()
	if err != nil {
		w.cancel(err)
	}
}

// unwatch takes w out, in constant time however many there are.
func (t *tenure) unwatch(w *watcher) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	if w.at >= len(t.watchers) || t.watchers[w.at] != w {
		return // it was taken out before, or the tenure has ended
	}
	end := len(t.watchers) - 1
	moved := t.watchers[end]
	t.watchers[w.at], moved.at = moved, w.at
	t.watchers[end] = nil
	t.watchers = t.watchers[:end]
}

// lose ends a hold that t has lost. What may still be at the store is withdrawn
// after Done has closed, so that the key is free as soon as it can be. If t has handed
// the hold over meanwhile, the clocks were looked at then, and nothing is lost. A nil t is
// whichever has it.
func (h *hold) lose(t *tenure, cause error) {
	if t = h.end(t, cause, reasonOf(cause)); t != nil {
		h.afterLoss(t)
	}
}

// afterLoss is what follows once Done of the lost tenure has closed.
func (h *hold) afterLoss(t *tenure) {
	t.tellLoss()
	h.c.sched.remove(h)
	h.cleanUp()
	h.leaveSlot()
}

// gone ends a hold that the store has said it does not have, whoever has it here.
func (h *hold) gone(cause error) {
	t := h.end(nil, cause, LossRevoked)
	if t == nil {
		return
	}
	t.tellLoss()
	h.c.sched.remove(h)
	h.exorcise()
	h.leaveSlot()
}

// cleanUp has the janitor remove the hold from the store: now, or when MinHold
// is over.
func (h *hold) cleanUp() {
	end := h.deadline.Load().Add(margin(h.ttlNow())).Mono // of the lease
	t := &chore{key: h.key, id: h.id, until: max(end, h.ghost.Mono), known: true, unknown: h.sends}
	t.at = h.c.clock.Now().Mono
	if d := h.minHoldLeft(); d > 0 {
		t.at, t.held = t.at+d, true
	}
	h.c.janitor.put(t)
}

// exorcise cleans up after calls of this id whose outcome was never known.
func (h *hold) exorcise() {
	if h.sends > 0 && h.ghost.Mono > h.c.clock.Now().Mono {
		h.c.janitor.put(&chore{key: h.key, id: h.id, until: h.ghost.Mono, unknown: h.sends})
	}
}

// minHoldLeft is how long the key must stay taken from now. It goes by the
// monotonic clock: a wall clock that is set must not free the key early.
func (h *hold) minHoldLeft() time.Duration {
	if h.cfg.minHold == 0 {
		return 0
	}
	return max(h.first.granted.Mono+h.cfg.minHold-h.c.clock.Now().Mono, 0)
}

// lingers reports whether the key must not be freed now, and the store cannot
// do it later by itself. The lease covers MinHold.
func (h *hold) lingers() bool { return h.c.locks.delayed == nil && h.minHoldLeft() > 0 }

// errReleased ends a tenure that was unlocked.
var errReleased = errs.Kind("unlocked", ErrNotHeld)

// release hands the hold over to the next local waiter, or gives it back to the
// store, whereupon that waiter asks there. Done closes first. now is when
// the tenure was found to hold.
func (t *tenure) release(ctx context.Context, now clock.Instant) (err error) {
	h := t.h
	if h.handTo(ctx, t, now) {
		return nil
	}
	if h.end(t, errReleased, "") == nil {
		return t.ended()
	}
	h.c.sched.remove(h)
	defer h.leaveSlot()
	if w := t.seen; w != nil {
		ended := h.c.clock.Mono()
		defer func() { w.released(ctx, t, ended, err) }()
	}
	if h.lingers() {
		h.cleanUp()
		return nil
	}
	return h.unlockStore(ctx)
}

// How long Unlock works on the store: in all, and on one call.
const (
	unlockBound = 2 * time.Second
	unlockTry   = 500 * time.Millisecond
)

// unlockStore frees the key, whatever has become of ctx. A lost reply is
// asked for again: ErrNotHeld then means that the first call had done it.
func (h *hold) unlockStore(ctx context.Context) error {
	bound := unlockBound
	if d, ok := ctx.Deadline(); ok && ctx.Err() == nil {
		bound = min(bound, max(time.Until(d), 100*time.Millisecond))
	}
	end := h.c.clock.Now().Add(bound)
	unknown := false
	for pause := minPause; ; pause *= 2 {
		try := min(unlockTry, end.Until(h.c.clock.Now()))
		err := h.unlockOnce(ctx, max(try, time.Millisecond))
		switch {
		case err == nil:
			h.exorcise()
			return nil
		case errors.Is(err, ErrNotHeld):
			h.exorcise()
			if unknown && !h.deadline.Load().Reached(h.c.clock.Now()) {
				return nil
			}
			return ErrLost
		case !passing(err):
			h.cleanUp()
			return errs.OfStore(ctx, err, true)
		}
		unknown = unknown || !driver.Definite(err)
		if end.Until(h.c.clock.Now()) <= pause {
			h.cleanUp()
			return errs.OfStore(context.WithoutCancel(ctx), err, true)
		}
		time.Sleep(pause)
	}
}

// unlockOnce makes one call, whatever has become of parent.
func (h *hold) unlockOnce(parent context.Context, bound time.Duration) error {
	ctx := driver.NewBound(parent, bound)
	defer ctx.Stop()
	returned := false
	defer errs.IfPanics(&returned, h.cleanUp)
	err := h.sendUnlock(ctx)
	returned = true
	return err
}

func (h *hold) sendUnlock(ctx context.Context) error {
	if d := h.minHoldLeft(); d > 0 {
		return h.c.locks.delayed.UnlockAfter(ctx, h.key, h.id, d)
	}
	return h.c.locks.Unlock(ctx, h.key, h.id)
}

// lossPushed is a LossNotifier's news. What is told before the grant has arrived is kept for settle.
func (c *Client) lossPushed(key, id string, cause error) {
	cause = errs.Chain(ErrLost, cause)
	c.mu.Lock()
	h := c.holds[id]
	if a := c.asking[id]; a != nil && a.key == key {
		a.lost = cause
	}
	c.mu.Unlock()
	if h != nil && h.key == key {
		h.gone(cause)
	}
}

// expectLoss has losses of a noted from now on, before a call for it. One that was told before is not of what this
// call is granted.
func (c *Client) expectLoss(a *attempt) {
	if c.asking == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking[a.id], a.lost = a, nil
}

// releaseAll gives every hold back, a bounded number at a time of each part of the
// store, after Done of all has closed.
func (c *Client) releaseAll(ctx context.Context) {
	c.mu.Lock()
	holds := slices.Collect(maps.Values(c.holds))
	c.mu.Unlock()
	holds = slices.DeleteFunc(holds, func(h *hold) bool { return h.end(nil, errClosedHold, LossClosed) == nil })
	partition.ForEach(&c.locks.parts, holds, holdKey, func(h *hold) {
		defer h.leaveSlot()
		h.current().tellLoss()
		if h.lingers() {
			return
		}
		if ctx.Err() == nil {
			h.tryUnlock(ctx)
		}
	})
}

func holdKey(h *hold) string { return h.key }

// tryUnlock gives the hold back once. What is not confirmed is left to its lease.
func (h *hold) tryUnlock(ctx context.Context) {
	var err error
	defer h.c.panics.Catch("a lock was given back", &err)
	err = h.unlockOnce(ctx, unlockTry)
}
