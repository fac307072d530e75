package hold

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/observe"
)

// Tenure is one holder's time with a hold. A hold that is handed over inside the client has one tenure after the other, each
// with the next token; an earlier one never speaks for a later. Its methods are safe for concurrent use.
type Tenure struct {
	h       *hold
	by      *acquisition // of its holder
	token   driver.Token
	granted clock.Instant // when the grant, or the hand-over, had arrived
	endBy   clock.Instant // MaxHold; zero: none
	events

	over atomic.Bool  // what follows is set, and does not change any more
	err  error        // why it is over
	loss observe.Loss // why it was lost, if it was

	lastEnd clock.Instant // the deadline that it had when it ended
	lastTTL time.Duration

	// Guarded by Manager.mu.
	taker    *Attempt // it was handed to this attempt, which has not seen it yet
	warned   bool     // that others wait long for it
	done     chan struct{}
	watchers []*Watcher
}

// Name is the key as the application gave it.
func (t *Tenure) Name() string { return t.h.by.spec.Name }

// ID is the id under which the store has the hold.
func (t *Tenure) ID() string { return t.h.by.id }

// Identity says which tenure an event is of.
func (t *Tenure) Identity() observe.Lock { return observe.Lock{ID: t.h.by.id, Token: t.token} }

// Token is the fencing token.
func (t *Tenure) Token() driver.Token { return t.token }

// TTL is the lease as the tenure knew it last: later renewals are another's.
func (t *Tenure) TTL() time.Duration {
	t.h.m.mu.Lock()
	defer t.h.m.mu.Unlock()
	if t.over.Load() {
		return t.lastTTL
	}
	return t.h.ttl
}

// Deadline is until when the tenure is certain, or was when it ended.
func (t *Tenure) Deadline() time.Time {
	c, d := t.h.m.clock, t.deadline()
	now := c.Now()
	if left := d.Until(now); left < d.Mono-now.Mono-clockStep { // else it would never be the same twice
		return c.Time(now.Add(left))
	}
	return c.Time(d)
}

func (t *Tenure) deadline() clock.Instant {
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

// Done is closed when the tenure ends.
func (t *Tenure) Done() <-chan struct{} {
	t.h.m.mu.Lock()
	defer t.h.m.mu.Unlock()
	if t.done == nil {
		if t.over.Load() {
			t.done = closedChan
		} else {
			t.done = make(chan struct{})
		}
	}
	return t.done
}

// Check is nil while the tenure holds. It looks at the clocks: what is past
// its deadline is lost now, whether or not the scheduler has run.
func (t *Tenure) Check() error {
	if !t.over.Load() {
		if cause := t.h.overdue(t, t.h.m.clock.Now()); cause != nil {
			t.h.m.lose(t.h, t, cause)
		}
	}
	return t.Ended()
}

// Holds reports whether the tenure is held by the monotonic clock alone, which costs half: the scheduler watches the
// other one. If it is not held, Check says why, and tells the trace.
func (t *Tenure) Holds() bool {
	mono := t.h.m.clock.Mono()
	return !t.over.Load() && mono < t.h.deadline.Mono() && (t.endBy.Mono == 0 || mono < t.endBy.Mono)
}

// Ended is why the tenure is over, nil while nobody has noticed that it is.
func (t *Tenure) Ended() error {
	if t.over.Load() {
		return t.err
	}
	return nil
}

// Watcher is a context that ends with a tenure.
type Watcher struct {
	Cancel context.CancelCauseFunc
	at     int // where it is in Tenure.watchers; guarded by Manager.mu
}

// Watch cancels w's context when the tenure ends, or at once if it has.
func (t *Tenure) Watch(w *Watcher) {
	t.h.m.mu.Lock()
	ended := t.over.Load()
	if !ended {
		w.at = len(t.watchers)
		t.watchers = append(t.watchers, w)
	}
	t.h.m.mu.Unlock()
	if ended {
		w.Cancel(t.err)
	}
}

// Unwatch takes w out, in constant time however many there are.
func (t *Tenure) Unwatch(w *Watcher) {
	t.h.m.mu.Lock()
	defer t.h.m.mu.Unlock()
	if w.at >= len(t.watchers) || t.watchers[w.at] != w {
		return // it was taken out before, or the tenure has ended
	}
	end := len(t.watchers) - 1
	moved := t.watchers[end]
	t.watchers[w.at], moved.at = moved, w.at
	t.watchers[end] = nil
	t.watchers = t.watchers[:end]
}
