package hold

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
)

// hold is what this client has at the store: a lease on a key under an id. Its
// tenure is who has it inside the client.
type hold struct {
	by    *acquisition // the one that was granted it
	clock *clock.Clock

	stored    int64           // the store's fencing value
	slot      int             // its number among those who share the key
	placeLeft <-chan struct{} // closed once the place at the head of the queue was given back; nil if there was none
	grantedAt time.Duration   // when the grant had arrived, on the monotonic clock: not before the store made it

	// guarded by Manager.mu
	inSlot   bool // the slot of its key has not been left
	handOffs int

	deadline clock.Atomic // until when the lease is certain; written under mu, only moves on
	over     atomic.Bool  // its last tenure has ended; written under mu

	mu       sync.Mutex // guards what follows, and every tenure
	ttl      time.Duration
	share    driver.Share // it only shrinks
	renewAt  clock.Instant
	renewing bool
	tenure   *tenure // the one that has it, or the last that had

	alarm // when the scheduler looks again
}

// tenure is one local holder's time with a hold. A hold that is handed off
// inside the client has one tenure after the other, each with the next token;
// an earlier one never speaks for a later. Its fields are guarded by
// hold.mu unless they never change.
type tenure struct {
	by      *acquisition // whose it is
	events  *events      // of its attempt, when it was granted; nil unless somebody listens
	token   driver.Token
	granted clock.Instant // when the grant, or the hand-off, had arrived
	endBy   clock.Instant // MaxHold; zero: none

	over     atomic.Bool   // err is set, and what follows it
	loss     Loss          // why it was lost, if it was
	telling  bool          // its events may be told, from the grant until the last of them; guarded by events.mu
	err      error         // why it is over; nil while it is held
	lastEnd  clock.Instant // the deadline that it had when it ended
	lastTTL  time.Duration
	done     chan struct{}
	watchers []*Watcher
}

// ErrReleased ends a tenure that was unlocked.
var ErrReleased = errs.Kind("unlocked", driver.ErrNotHeld)

// errClosed ends the holds of a Manager that gives them back.
var errClosed = errs.Kind("lock given back by Close", errors.Join(driver.ErrClosed, errs.ErrLost))

// margin is what is taken off a lease for clocks that drift apart.
func margin(ttl time.Duration) time.Duration {
	return max(ttl/100, 5*time.Millisecond)
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

// deadlineOf is until when t, which has the hold or had it, is certain, or was when it ended.
func (h *hold) deadlineOf(t *tenure) clock.Instant {
	d := h.deadline.Load().Earlier(t.endBy)
	if t.over.Load() { // then d may be of a later tenure
		return t.lastEnd
	}
	return d
}

// overdue says why t cannot be held at now.
func (h *hold) overdue(t *tenure, now clock.Instant) error {
	switch {
	case t.endBy != clock.Instant{} && t.endBy.Reached(now):
		return errs.ErrMaxHold
	case h.deadline.Load().Reached(now):
		return errs.ErrLost
	}
	return nil
}

// lapsed is overdue by the monotonic clock alone.
func (h *hold) lapsed(t *tenure, mono time.Duration) bool {
	return mono >= h.deadline.Mono() || t.endBy.Mono != 0 && mono >= t.endBy.Mono
}

// ttlOf is the lease as t knew it last: later renewals are another's.
func (h *hold) ttlOf(t *tenure) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.err != nil {
		return t.lastTTL
	}
	return h.ttl
}

// errOf is why t is over.
func (h *hold) errOf(t *tenure) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return t.err
}

// end ends the hold, and the tenure that has it, with err, and a reason if that is a loss:
// Done closes and contexts are cancelled before it returns. If t is given and does not have the
// hold any more, its end is no end of the hold. It gives the tenure that it ended,
// nil if there was none to end.
func (h *hold) end(t *tenure, err error, loss Loss) *tenure {
	h.mu.Lock()
	last := h.tenure
	if last.err != nil || t != nil && t != last {
		h.mu.Unlock()
		return nil
	}
	h.over.Store(true)
	watchers := h.finish(last, err)
	last.loss = loss
	h.mu.Unlock()
	cancelAll(watchers, err)
	return last
}

// finish ends t and closes Done. It gives the contexts that the caller
// is to cancel after the mutex is free. hold.mu is held.
func (h *hold) finish(t *tenure, err error) []*Watcher {
	t.lastEnd, t.lastTTL = h.deadlineOf(t), h.ttl
	t.err = err
	t.over.Store(true)
	if t.done != nil {
		close(t.done)
	}
	watchers := t.watchers
	t.watchers = nil
	return watchers
}

func cancelAll(watchers []*Watcher, err error) {
	for _, w := range watchers {
		w.Cancel(err)
	}
}

func holdKey(h *hold) string { return h.by.spec.Key }
