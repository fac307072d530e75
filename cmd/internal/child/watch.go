package child

import "time"

// watch knows when a command has to end because of its lock, or of a bound on its time.
type watch struct {
	lock  Lock
	grace time.Duration
	last  time.Time       // when the command has run for its bound; zero if there is none
	done  <-chan struct{} // of the lock; nil once it has been seen
	timer *time.Timer
	told  Reason    // why TERM was due
	kill  time.Time // when KILL is due, once told
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

func newWatch(lock Lock, l Limits) *watch {
	w := &watch{lock: lock, grace: l.Grace, done: lock.Done(), timer: time.NewTimer(0)}
	if l.MaxRun > 0 {
		w.last = time.Now().Add(l.MaxRun)
	}
	w.rest()
	return w
}

func (w *watch) stop() { w.timer.Stop() }

// rest sets the timer for what comes next.
func (w *watch) rest() {
	next := min(time.Until(w.leaseTerm()), glance)
	switch {
	case w.told != Untold:
		next = min(time.Until(w.kill), glance)
	case !w.last.IsZero():
		next = min(next, time.Until(w.last.Add(-w.grace)))
	}
	w.timer.Reset(max(next, 0))
}

// fits is grace, or what of it fits the lease: a store with sessions may have granted a shorter one
// than was asked for, and one that gave the lock on to a waiter has until the first renewal.
func (w *watch) fits() time.Duration { return min(w.grace, w.lock.TTL()/3) }

// leaseTerm is when TERM is due because of the lease. A renewal between the two questions must not
// look like the grace of a long lease at the end of a short one.
func (w *watch) leaseTerm() time.Time {
	grace := w.fits()
	return w.lock.Deadline().Add(-grace)
}

// look says what is due now.
func (w *watch) look() verdict {
	defer w.rest()
	now := time.Now()
	lost := w.lock.Err() != nil || !now.Before(w.leaseTerm())
	switch {
	case lost && w.lose():
		return termNow
	case w.told != Untold && !now.Before(w.kill):
		w.kill = now.Add(glance) // should it be needed again
		return killNow
	case w.told == Untold && !w.last.IsZero() && !now.Before(w.last.Add(-w.grace)):
		w.told, w.kill = MaxRun, w.last
		return termNow
	}
	return nothing
}

// lose notes that the command has to end because of its lock, and until when it may take for it:
// until the lease ends, and for grace at most. Where the lease has ended already somebody may hold
// the lock; the command still gets its grace. It is false if the command has been told before.
func (w *watch) lose() bool {
	w.done = nil
	if w.told == Lost {
		return false
	}
	before := w.told
	now, end := time.Now(), w.lock.Deadline()
	kill := now.Add(w.fits())
	if end.After(now) && end.Before(kill) {
		kill = end
	}
	if before == Untold || kill.Before(w.kill) {
		w.kill = kill
	}
	w.told = Lost
	w.rest()
	return before == Untold
}
