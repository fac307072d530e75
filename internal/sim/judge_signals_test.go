package sim

import (
	"context"
	"slices"
	"time"
)

// signalled are the signals that somebody has to wake up by.
type signalled struct {
	waiters map[*sleeper]bool
	debts   []*debt
	deaf    map[string]time.Time // until then a waiter who died may take the signals of a key
}

// sleeper is one Wait on a condition.
type sleeper struct {
	k      *worker
	key    string
	cancel context.CancelFunc
	placed bool // somebody has had the lock since it began: then its place is taken
}

// debt is a signal that was sent while some slept.
type debt struct {
	key    string
	of     map[*sleeper]bool
	since  time.Time
	idle   time.Duration // for so long nothing of the lock itself was in the way
	told   bool
	sender string
}

// sleeps notes that a worker gives up its lock and waits.
func (w *world) sleeps(k *worker, key string, cancel context.CancelFunc) *sleeper {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &sleeper{k: k, key: key, cancel: cancel}
	if w.waiters == nil {
		w.waiters = map[*sleeper]bool{}
	}
	w.waiters[s] = true
	return s
}

// wakesUp notes that the wait is over. The oldest signal that it may have had is paid by it.
func (w *world) wakesUp(s *sleeper, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.waiters, s); s.k.l.isDead() {
		return
	}
	w.note("%s wakes up: %v", s.k.name, err == nil)
	if err == nil {
		w.wakes++
	}
	paid := err != nil
	for i := 0; i < len(w.debts); i++ {
		d := w.debts[i]
		if !d.of[s] {
			continue
		}
		delete(d.of, s)
		if !paid || len(d.of) == 0 { // it woke up, or nobody is left who could
			paid = true
			w.debts = append(w.debts[:i], w.debts[i+1:]...)
			i--
		}
	}
}

// meets has some signals meet a cancellation: whoever is signalled gives up before it knows.
func (w *world) meets(by *link, id string, err error) {
	if err != nil || w.plan.calm() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.byID[id]
	for s := range w.waiters {
		if q == nil || q.l == by || s.k.name != q.caller {
			continue
		}
		if r := w.draw(s.k.name, "meets"); r.IntN(2) == 0 {
			w.calls.Go(func() {
				time.Sleep(1 + rand64(r, 3*time.Millisecond))
				s.cancel()
			})
		}
	}
}

// hadLock notes that somebody else has the lock of key: those who wait have given it up, and have their place.
func (w *world) hadLock(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.waiters {
		s.placed = s.placed || s.key == key
	}
}

// signals notes a signal that was sent under the lock. One is a signal, all a broadcast.
func (w *world) signals(k *worker, key string, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := map[*sleeper]bool{}
	for s := range w.waiters {
		if s.key == key && s.placed && !s.k.l.isDead() {
			of[s] = true
		}
	}
	w.note("%s signals %q to %d", k.name, key, len(of))
	if len(of) == 0 || time.Now().Before(w.deaf[key]) {
		return
	}
	n := 1
	if all {
		n = len(of)
	}
	for range n {
		d := &debt{key: key, of: map[*sleeper]bool{}, since: time.Now(), sender: k.name}
		for s := range of {
			d.of[s] = true
		}
		w.debts = append(w.debts, d)
	}
}

// owes reports whether somebody has yet to wake up by a signal of key.
func (w *world) owes(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.debts, func(d *debt) bool { return d.key == key })
}

// forgetSignals forgets debts: who died may have had a signal, or has one in the time of its lease.
func (w *world) forgetSignals() {
	w.debts = nil
	if w.deaf == nil {
		w.deaf = map[string]time.Time{}
	}
	for _, key := range w.plan.names() {
		w.deaf[key] = time.Now().Add(condLease)
	}
}

// judgeSignals looks for signals that nobody woke up by, though the lock was free most of the time.
func (w *world) judgeSignals() {
	for _, d := range w.debts {
		if !w.freeSince[d.key].IsZero() {
			d.idle += tick
		}
		if d.idle > w.patience() && !d.told {
			d.told = true
			w.violate("signal", "%s signalled %q %v ago, and nobody has woken up, of %d", d.sender, d.key, time.Since(d.since), len(d.of))
		}
	}
}
