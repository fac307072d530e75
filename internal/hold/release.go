package hold

import (
	"context"
	"errors"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
)

// Release gives the tenure up: it hands the hold to the next local waiter, or gives it back to the store,
// whereupon that waiter asks there. Done closes first. It is called once. ErrLost, ErrMaxHold: the tenure had
// ended before. ErrUnavailable: the store did not confirm in time, and the janitor goes on.
func (t *Tenure) Release(ctx context.Context) error {
	now := t.h.m.clock.Now()
	if err := t.checkAt(now); err != nil {
		return err
	}
	return t.release(ctx, now)
}

// release is Release of a tenure that was found to hold at now.
func (t *Tenure) release(ctx context.Context, now clock.Instant) (err error) {
	h := t.h
	if h.handTo(ctx, t, now) {
		return nil
	}
	if h.end(t, ErrReleased, NotLost) == nil {
		return t.ended()
	}
	h.m.sched.remove(h)
	defer h.leaveSlot()
	if t.events != nil {
		ended := h.m.clock.Mono()
		defer func() { t.tellReleased(ctx, ended, err) }()
	}
	if h.lingers() {
		h.cleanUp()
		return nil
	}
	return h.unlockStore(ctx)
}

// How long Release works on the store: in all, and on one call.
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
	end := h.m.clock.Now().Add(bound)
	unknown := false
	for pause := minPause; ; pause *= 2 {
		try := min(unlockTry, end.Until(h.m.clock.Now()))
		err := h.unlockOnce(ctx, max(try, time.Millisecond))
		switch {
		case err == nil:
			h.cleanUpUnknown()
			return nil
		case errors.Is(err, driver.ErrNotHeld):
			h.cleanUpUnknown()
			if unknown && !h.deadline.Load().Reached(h.m.clock.Now()) {
				return nil
			}
			return errs.ErrLost
		case !passing(err):
			h.cleanUp()
			return errs.OfStore(ctx, err, true)
		}
		unknown = unknown || !driver.Definite(err)
		if end.Until(h.m.clock.Now()) <= pause {
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
		return h.m.store.Delayed.UnlockAfter(ctx, h.spec.Key, h.by.id, d)
	}
	return h.m.store.Unlock(ctx, h.spec.Key, h.by.id)
}

// tryUnlock gives the hold back once. What is not confirmed is left to its lease.
func (h *hold) tryUnlock(ctx context.Context) {
	var err error
	defer h.m.panics.Catch("a lock was given back", &err)
	err = h.unlockOnce(ctx, unlockTry)
}

// minHoldLeft is how long the key must stay taken from now. It goes by the
// monotonic clock: a wall clock that is set must not free the key early.
func (h *hold) minHoldLeft() time.Duration {
	if h.spec.MinHold == 0 {
		return 0
	}
	return max(h.grantedAt+h.spec.MinHold-h.m.clock.Now().Mono, 0)
}

// lingers reports whether the key must not be freed now, and the store cannot
// do it later by itself. The lease covers MinHold.
func (h *hold) lingers() bool { return h.m.store.Delayed == nil && h.minHoldLeft() > 0 }

// cleanUp has the janitor remove the hold from the store: now, or when MinHold
// is over.
func (h *hold) cleanUp() {
	end := h.deadline.Load().Add(margin(h.ttlNow())).Mono // of the lease
	t := &task{key: h.spec.Key, id: h.by.id, until: max(end, h.by.unknownUntil.Mono), known: true, unknown: h.by.unknown}
	t.at = h.m.clock.Now().Mono
	if d := h.minHoldLeft(); d > 0 {
		t.at, t.held = t.at+d, true
	}
	h.m.janitor.put(t)
}

// cleanUpUnknown removes leases that calls of this id may have created whose outcome was never known.
func (h *hold) cleanUpUnknown() {
	if h.by.unknown > 0 && h.by.unknownUntil.Mono > h.m.clock.Now().Mono {
		h.m.janitor.put(&task{key: h.spec.Key, id: h.by.id, until: h.by.unknownUntil.Mono, unknown: h.by.unknown})
	}
}
