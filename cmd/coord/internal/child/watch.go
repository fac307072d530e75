package child

import "time"

// watch knows when a command has to end because of its lock.
type watch struct {
	lock  Lock
	grace time.Duration
	done  <-chan struct{} // of the lock; nil once it has been seen
	timer *time.Timer
	lost  bool      // TERM was due
	kill  time.Time // when KILL is due, once lost
}

// verdict is what is due.
type verdict int

const (
	nothing verdict = iota
	termNow
	killNow
)

// glance is how often the watch asks the lock itself, which compares the wall clock too:
// timers stand still while the machine sleeps.
const glance = time.Second

func (w *watch) arm() {
	w.done = w.lock.Done()
	w.timer = time.NewTimer(0)
	w.rest()
}

func (w *watch) stop() { w.timer.Stop() }

// rest sets the timer for what comes next.
func (w *watch) rest() {
	next := min(time.Until(w.term()), glance)
	if w.lost {
		next = time.Until(w.kill)
	}
	w.timer.Reset(max(next, 0))
}

// fits is grace, or what of it fits the lease: a store with sessions may have granted a shorter one
// than was asked for, and one that gave the lock on to a waiter has until the first renewal.
func (w *watch) fits() time.Duration { return min(w.grace, w.lock.TTL()/3) }

// term is when TERM is due. A renewal between the two questions must not look like the
// grace of a long lease at the end of a short one.
func (w *watch) term() time.Time {
	grace := w.fits()
	return w.lock.Deadline().Add(-grace)
}

// look says what is due now.
func (w *watch) look() verdict {
	defer w.rest()
	switch {
	case w.lost && !time.Now().Before(w.kill):
		w.kill = time.Now().Add(glance) // should it be needed again
		return killNow
	case w.lost:
		return nothing
	case w.lock.Err() != nil || !time.Now().Before(w.term()):
		w.lose()
		return termNow
	}
	return nothing
}

// lose notes that the command has to end, and until when it may take for it: until
// the lease ends, and for grace at most. Where the lease has ended already
// somebody may hold the lock; the command still gets its grace. It is false if
// the command has been told before.
func (w *watch) lose() bool {
	w.done = nil
	if w.lost {
		return false
	}
	now, end := time.Now(), w.lock.Deadline()
	w.lost, w.kill = true, now.Add(w.fits())
	if end.After(now) && end.Before(w.kill) {
		w.kill = end
	}
	w.rest()
	return true
}
