package hold

import (
	"context"
	"errors"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// Release gives the tenure up: it hands the hold to the next attempt of this client, or gives it back to the store,
// whereupon that attempt asks there. Done closes first. It is called once. ErrLost, ErrMaxHold: the tenure had
// ended before. ErrUnavailable: the store did not confirm in time, and the janitor goes on.
func (t *Tenure) Release(ctx context.Context) error {
	h, m := t.h, t.h.m
	now := m.clock.Now()
	m.mu.Lock()
	cause := h.overdue(t, now)
	switch {
	case t.over.Load():
		m.mu.Unlock()
		return t.err
	case cause != nil:
		e := h.end(t, cause, lossOf(cause))
		m.mu.Unlock()
		m.afterLoss(e, m.cleanUp)
		return t.err
	case m.successor(h, now) != nil:
		e := h.finish(ErrReleased, notLost)
		h.state = released
		m.mu.Unlock()
		m.handOver(ctx, e, now)
		return nil
	}
	e := h.end(t, ErrReleased, notLost)
	m.mu.Unlock()
	e.cancel()
	return m.giveBack(ctx, h, t)
}

// giveBack gives a hold that is over back to the store. t, which had it, is told what came of that; nil: nobody is.
func (m *Manager) giveBack(ctx context.Context, h *hold, t *Tenure) (err error) {
	m.sched.remove(h)
	defer m.leaveKey(h)
	if t != nil && t.trace != nil {
		ended := m.clock.Mono()
		defer func() { t.tellReleased(ctx, ended, err) }()
	}
	if m.lingers(h) {
		m.cleanUp(h)
		return nil
	}
	defer h.awaitPlace(ctx)
	return m.unlockStore(ctx, h)
}

// How long Release works on the store: in all, and on one call.
const (
	unlockBound = 2 * time.Second
	unlockTry   = 500 * time.Millisecond
)

// unlockStore frees the key, whatever has become of ctx. A lost reply is
// asked for again: ErrNotHeld then means that the first call had done it. Of a Place it may be a signal that had.
func (m *Manager) unlockStore(ctx context.Context, h *hold) error {
	bound := unlockBound
	if d, ok := ctx.Deadline(); ok && ctx.Err() == nil {
		bound = min(bound, max(time.Until(d), 100*time.Millisecond))
	}
	end := m.clock.Now().Add(bound)
	unknown := false
	for pause := minPause; ; pause *= 2 {
		try := min(unlockTry, end.Until(m.clock.Now()))
		err := m.unlockOnce(ctx, h, max(try, time.Millisecond))
		switch {
		case err == nil:
			m.cleanUpUnknown(h)
			return nil
		case errors.Is(err, driver.ErrNotHeld):
			m.cleanUpUnknown(h)
			if unknown && h.by.spec.PassOn == nil && !h.deadline.Load().Reached(m.clock.Now()) {
				return nil
			}
			return errs.ErrLost
		case !passing(err):
			m.cleanUp(h)
			return errs.OfStore(ctx, err, true)
		}
		unknown = unknown || !driver.Definite(err)
		if end.Until(m.clock.Now()) <= pause {
			m.cleanUp(h)
			return errs.OfStore(context.WithoutCancel(ctx), err, true)
		}
		time.Sleep(pause)
	}
}

// unlockOnce makes one call, whatever has become of parent.
func (m *Manager) unlockOnce(parent context.Context, h *hold, bound time.Duration) error {
	ctx := driver.NewBound(parent, bound)
	defer ctx.Stop()
	if d := h.minHoldLeft(); d > 0 {
		return m.store.UnlockAfter(ctx, h.by.spec.Key, h.by.id, d)
	}
	return m.store.Unlock(ctx, h.by.spec.Key, h.by.id)
}

// minHoldLeft is how long the key must stay taken from now. It goes by the
// monotonic clock: a wall clock that is set must not free the key early.
func (h *hold) minHoldLeft() time.Duration {
	if h.by.spec.MinHold == 0 {
		return 0
	}
	return max(h.grantedAt+h.by.spec.MinHold-h.m.clock.Mono(), 0)
}

// lingers reports whether the key must not be freed now, and the store cannot
// do it later by itself. The lease covers MinHold.
func (m *Manager) lingers(h *hold) bool { return !m.store.Delayed && h.minHoldLeft() > 0 }
