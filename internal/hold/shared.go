package hold

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// A key that several hold has no queue of its own at the store. Who is refused waits for the exclusive lock of the same key,
// which has one: first come, first served, woken and cleaned up after as any lock is. Its holder is the head. It alone asks
// the store again, and while it does the store grants the key to nobody else.

// contendShared asks the store until it says yes, or something ends the wait.
func (a *Attempt) contendShared(ctx context.Context) (granted, error) {
	if a.try || !a.spec.Fair && !a.m.queues.isBusy(a.spec.Key) {
		g, err := a.tryOnce(ctx)
		switch {
		case err == nil:
			return g, nil
		case !errors.Is(err, driver.ErrLocked):
			return g, errs.OfStore(ctx, err, true)
		}
		named := a.refusedByStore(err)
		if a.try {
			return g, named
		}
	}
	a.outage.waits(a.m.clock.Now())
	for {
		place, err := a.queueUp(ctx)
		var late *lateGrant
		switch {
		case errors.As(err, &late) && !a.outage.lasts(err, a.spec.outlasts, a.m.clock.Now()):
			continue // the place has a shorter lease than the hold
		case err != nil:
			return granted{}, err
		}
		g, err := a.askAsHead(ctx, place)
		if err != errPlaceLost {
			return g, err
		}
		a.startAnew()
	}
}

// startAnew leaves to the janitor what the calls so far may have left at the store, as the headship of a place that was
// lost: it would keep the next head waiting. a goes on under another id.
func (a *Attempt) startAnew() {
	m := a.m
	if t := a.leftBehind(); t != nil {
		m.janitor.put(t)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.asking, a.id)
	a.id, a.unknown = m.newID(a.spec.Holder), 0
}

// isBusy reports whether somebody of this client has key or wants it.
func (m *Manager) isBusy(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keys[key] != nil
}

// Holds reports whether this client holds key.
func (m *Manager) Holds(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.keys[key]
	return k != nil && k.hold != nil
}

// queueUp waits for the place at the head of the queue. The place has a short lease of its own: for so long a first that
// has died blocks those behind it. One that loses its place queues again, and has lost its turn alone.
func (a *Attempt) queueUp(ctx context.Context) (*Tenure, error) {
	q := &Attempt{waits: func(string) { _ = a.refusedByStore(nil) }}
	q.begin(a.m.queues, Spec{
		Name: a.spec.Name, Key: a.spec.Key, Lease: a.m.placeLease, outlasts: a.spec.Lease, Fair: a.spec.Fair, MaxWaiting: a.spec.MaxWaiting, ofHeads: true,
		Holder: a.spec.Holder, Owner: a.spec.Owner,
	})
	q.waited = a.refused || a.placeLeft != nil // a store that fails now does not end its wait
	q.outage = a.outage                        // which may be why it lost the place that it had
	place, err := q.run(ctx)
	if err != nil {
		return nil, err
	}
	a.outage.ends(a.m.clock.Now())
	return place, nil
}

// errPlaceLost is that the head is none any more, and queues again.
var errPlaceLost = errors.New("the place at the head of the queue was lost")

// headPause is the longest time between two requests of a head: its headship is to go on.
const headPause = driver.HeadFor / 3

// askAsHead asks the store, from the head of the queue, until it says yes, and gives the place back.
func (a *Attempt) askAsHead(ctx context.Context, place *Tenure) (g granted, err error) {
	m, answered := a.m, false
	following, stop := context.WithCancel(ctx)
	a.isHead = true
	defer func() {
		a.isHead = false
		stop()
		if err != nil || !answered { // an observer may have ended the goroutine
			a.mayHave(m.clock.Now()) // its headship, which a refusal has left
		}
		left := make(chan struct{})
		a.placeLeft = left
		m.bg.Go(func() {
			defer close(left)
			_ = place.Release(context.Background()) // what is not confirmed is cleaned up after
		})
	}()
	g, err = a.ask(following, place)
	answered = true
	return g, err
}

// awaitPlace returns when the place in the queue that h came from has been given back: a process may end after Unlock. It waits
// no longer than ctx and Release of the place allow.
func (h *hold) awaitPlace(ctx context.Context) {
	if h.placeLeft == nil {
		return
	}
	if ctx.Err() != nil { // the key is freed all the same
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-h.placeLeft:
	case <-ctx.Done():
	}
}

// ask is the loop of askAsHead.
func (a *Attempt) ask(ctx context.Context, place *Tenure) (granted, error) {
	m := a.m
	var c *changes
	for pause := minPause; ; {
		if place.Check() != nil {
			return granted{}, errPlaceLost
		}
		g, err := a.tryOnce(ctx)
		switch {
		case err == nil:
			return g, nil
		case errors.Is(err, driver.ErrLocked):
			a.outage.ends(m.clock.Now())
			_ = a.refusedByStore(err)
			if c == nil {
				c = m.follow(ctx, a.spec.Key)
			}
		case ctx.Err() != nil:
			return g, a.waitFailure(ctx)
		case !passing(err) || a.outage.lasts(err, a.spec.outlasts, m.clock.Now()):
			return g, a.outage.tell(ctx, err)
		}
		if c.pushed() {
			pause = headPause
		}
		if m.awaitChange(ctx, place.Done(), c, m.untilFree(a.spec.Key, err, pause)) {
			return g, a.waitFailure(ctx)
		}
		pause = a.nextPause(pause, err)
	}
}

// awaitChange pauses between two requests: for d, until the key changes, if that is pushed, or until over is closed. It
// reports true if ctx or the Manager has ended.
func (m *Manager) awaitChange(ctx context.Context, over <-chan struct{}, c *changes, d time.Duration) (ended bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.signal():
	case <-over:
	case <-ctx.Done():
		return true
	case <-m.life.Done():
		return true
	}
	return false
}

// changes is what a head is told of changes of its key. Nil is for stores that tell nothing.
type changes struct {
	listening atomic.Bool
	changed   chan struct{}
}

// follow has the store tell of changes of key until ctx ends, if it can.
func (m *Manager) follow(ctx context.Context, key string) *changes {
	if m.changes == nil {
		return nil
	}
	c := &changes{changed: make(chan struct{}, 1)}
	m.bg.Go(func() {
		defer c.listening.Store(false) // then the head polls
		_ = m.changes.NotifyChanges(ctx, key, c.tell)
	})
	return c
}

// tell notes a change.
func (c *changes) tell() {
	c.listening.Store(true)
	select {
	case c.changed <- struct{}{}:
	default: // there is a signal that was not read yet
	}
}

// pushed reports whether changes are told.
func (c *changes) pushed() bool { return c != nil && c.listening.Load() }

// signal is sent to when there was a change.
func (c *changes) signal() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.changed
}

// warnOfBound logs, once, that another client takes there to be fewer permits.
func (a *Attempt) warnOfBound(g granted) {
	m := a.m
	if of := a.spec.Share.Of; g.Of < of {
		m.bounds.Do(func() {
			m.log.Warn("coord: another client uses this semaphore with fewer permits; the least number of those who hold some counts",
				"key", a.spec.Name, "permits", of, "least", g.Of)
		})
	}
}

// Slot is the lowest number from 0 that no other live hold of the key had when this one was granted.
func (t *Tenure) Slot() int { return t.h.slot }

// Share is how the hold shares its key now.
func (t *Tenure) Share() driver.Share {
	t.h.m.mu.Lock()
	defer t.h.m.mu.Unlock()
	return t.h.share
}

// Shrink makes the hold smaller, as driver.Share says, in one request. If the store does not confirm that, the next
// renewal asks for it. There is no error if the tenure was given up meanwhile.
func (t *Tenure) Shrink(ctx context.Context, share driver.Share) error {
	if t.Ended() == ErrReleased {
		return nil
	}
	h, m := t.h, t.h.m
	m.mu.Lock()
	h.share = h.share.Shrunk(share)
	r := h.request()
	m.mu.Unlock()
	bound, cancel := context.WithTimeout(ctx, unlockTry)
	defer cancel()
	g, err := m.renew(bound, h, r)
	m.renewed(h, g, err)
	switch {
	case err == nil, t.Ended() == ErrReleased:
		return nil
	case errors.Is(err, driver.ErrNotHeld):
		return errs.ErrLost
	}
	return errs.OfStore(ctx, err, true)
}
