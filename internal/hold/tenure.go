package hold

import (
	"context"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
)

// Tenure is one local holder's time with a hold, as its holder has it. Its methods are safe for concurrent use.
type Tenure struct {
	*tenure
	h *hold
	m *Manager
}

// Name is the key as the application gave it.
func (t *Tenure) Name() string { return t.h.by.spec.Name }

// ID is the id under which the store has the hold.
func (t *Tenure) ID() string { return t.h.by.id }

// Identity says which tenure it is.
func (t *Tenure) Identity() Identity { return t.h.identity(t.tenure) }

// Token is the fencing token.
func (t *Tenure) Token() driver.Token { return t.token }

// TTL is the lease as the tenure knew it last: later renewals are another's.
func (t *Tenure) TTL() time.Duration { return t.h.ttlOf(t.tenure) }

// Deadline is until when the tenure is certain, or was when it ended.
func (t *Tenure) Deadline() time.Time { return t.h.clock.Time(t.h.deadlineOf(t.tenure)) }

// closedChan is the Done of what ended before anyone asked.
var closedChan = func() chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// Done is closed when the tenure ends.
func (t *Tenure) Done() <-chan struct{} {
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

// Check is nil while the tenure holds. It looks at the clocks: what is past
// its deadline is lost now, whether or not the scheduler has run.
func (t *Tenure) Check() error {
	if t.over.Load() {
		return t.h.errOf(t.tenure)
	}
	return t.checkAt(t.h.clock.Now())
}

func (t *Tenure) checkAt(now clock.Instant) error {
	if t.over.Load() {
		return t.h.errOf(t.tenure)
	}
	if cause := t.h.overdue(t.tenure, now); cause != nil {
		t.m.lose(t.h, t.tenure, cause)
		return t.h.errOf(t.tenure)
	}
	return nil
}

// Holds reports whether the tenure is held by the monotonic clock alone, which costs half: the scheduler watches the
// other one. If it is not held, Check says why, and tells the Trace.
func (t *Tenure) Holds() bool {
	return !t.over.Load() && !t.h.lapsed(t.tenure, t.h.clock.Mono())
}

// Ended is why the tenure is over, nil while nobody has noticed that it is.
func (t *Tenure) Ended() error {
	if t.over.Load() {
		return t.h.errOf(t.tenure)
	}
	return nil
}

// TellLoss tells the Trace of a loss, if there was one that was not told. Whoever comes first tells: who found
// the loss, or an Unlock of what was lost, so that a call that fails for a loss does not return before.
func (t *Tenure) TellLoss() { t.h.tellLoss(t.tenure) }

// InOrder runs fn as an event of t, unless the last event of t was told. Without a Trace fn does not run.
func (t *Tenure) InOrder(fn func()) { t.inOrder(fn) }

// Watcher is a context that ends with a tenure.
type Watcher struct {
	Cancel context.CancelCauseFunc
	at     int // where it is in Tenure.watchers; guarded by hold.mu
}

// Watch cancels w's context when the tenure ends, or at once if it has.
func (t *Tenure) Watch(w *Watcher) {
	t.h.mu.Lock()
	err := t.err
	if err == nil {
		w.at = len(t.watchers)
		t.watchers = append(t.watchers, w)
	}
	t.h.mu.Unlock()
	if err != nil {
		w.Cancel(err)
	}
}

// Unwatch takes w out, in constant time however many there are.
func (t *Tenure) Unwatch(w *Watcher) {
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
