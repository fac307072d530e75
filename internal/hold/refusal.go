package hold

import (
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// refusal is who was in the way of a key when the store said so last. Manager.mu guards it.
type refusal struct {
	holder string        // its id, "" where the store did not tell
	at     time.Duration // on the monotonic clock
}

// refusedByStore notes that the store has told a, by err, that the key is locked, and gives err as named does. A nil err
// tells no more than that.
func (a *Attempt) refusedByStore(err error) error {
	m, isNews, held := a.m, !a.refused, ""
	a.refused = true
	m.mu.Lock()
	if a.phase == asking {
		k := m.keys[a.spec.Key]
		if !a.spec.ofHeads { // one that has a place in a queue holds nothing
			k.refusal.note(err, m.clock.Mono())
		}
		if isNews {
			held = k.heldBy()
			k.waits(a)
		}
		if isNews && k.leader == a {
			k.refused, k.refusedAt = true, m.clock.Mono()
			m.turnAway(k)
		}
	}
	err = m.named(err)
	m.mu.Unlock()
	if isNews {
		a.tellWaits(held)
	}
	return err
}

// note takes in what err tells.
func (r *refusal) note(err error, now time.Duration) {
	var locked *driver.LockedError
	if errors.As(err, &locked) {
		r.holder, r.at = locked.Holder, now
	}
}

const (
	heldHere   = "held by this client; to re-enter, lock under the ctx that took it; otherwise unlock it first"
	heldBeside = "held by another client of this process; only a lock of the client that took it enters it again"
)

// errHeldHere is ErrLocked where the key is held by the client that asks: often by the caller itself, whose ctx has lost
// the entry.
var errHeldHere = errs.Kind(heldHere, driver.ErrLocked)

// locked says who is in the way of k, which may be nil. Manager.mu is held.
func (m *Manager) locked(k *key) error {
	switch {
	case k == nil:
		return driver.ErrLocked
	case k.hold != nil:
		return errHeldHere
	case k.refusal.holder == "":
		return driver.ErrLocked
	}
	err := m.named(&driver.LockedError{Holder: k.refusal.holder})
	if ago := (m.clock.Mono() - k.refusal.at).Truncate(time.Second); ago > 0 { // a store with a queue is not asked again
		err = errs.Kind(fmt.Sprintf("%v, as of %v ago", err, ago), err)
	}
	return err
}

// named is a refusal of the store that says so if the holder is in this process. Manager.mu is held.
func (m *Manager) named(err error) error {
	var locked *driver.LockedError
	switch {
	case !errors.As(err, &locked):
	case m.holds[locked.Holder] != nil:
		return errs.Kind(heldHere, err)
	case m.beside != nil && m.beside(locked.Holder):
		return errs.Kind(heldBeside, err)
	}
	return err
}
