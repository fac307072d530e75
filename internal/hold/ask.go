package hold

import (
	"context"
	"errors"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
)

// granted is a store's yes, with the local instant before which the lease
// cannot have started.
type granted struct {
	driver.Grant
	sent clock.Instant
}

// since is the instant from which g's lease certainly runs.
func (g granted) since(c *clock.Clock) clock.Instant {
	if g.Since.IsZero() {
		return g.sent
	}
	return c.At(g.Since)
}

// deadline is until when g is certain.
func (g granted) deadline(c *clock.Clock) clock.Instant {
	return g.since(c).Add(g.TTL - margin(g.TTL))
}

// contend asks the store until it says yes, or something ends the wait.
// It asks again with jittered pauses, unless the store has a queue of its own.
func (a *Attempt) contend(ctx context.Context) (granted, error) {
	m := a.m
	if a.id == "" {
		a.id = m.newID(a.spec.Holder)
	}
	if m.queues != nil {
		return a.contendShared(ctx)
	}
	if err := a.yield(ctx); err != nil {
		return granted{}, err
	}
	a.outage.waits(m.clock.Now())
	if !a.try && a.goesDirect() {
		return a.contendQueued(ctx)
	}
	for pause := minPause; ; {
		g, err := a.tryOnce(ctx)
		switch {
		case err == nil:
			return g, nil
		case errors.Is(err, driver.ErrLocked):
			a.outage.ends(m.clock.Now())
			named := a.refusedByStore(err)
			switch {
			case a.try:
				return g, named
			case m.store.Queuer != nil && ctx.Err() == nil:
				return a.contendQueued(ctx)
			}
		case ctx.Err() != nil && a.hasWaited():
			return g, a.waitFailure(ctx)
		case a.try || !a.goesOn(ctx, err):
			return g, a.outage.tell(ctx, err)
		}
		if ended := a.rest(ctx, err, m.untilFree(a.spec.Key, err, pause)); ended != nil {
			return g, ended
		}
		pause = a.nextPause(pause, err)
	}
}

// goesDirect reports whether a asks for a place in the store's queue without a try before:
// a fair one does, and one of a key that other clients held lately.
func (a *Attempt) goesDirect() bool {
	return a.m.store.Queuer != nil && (a.spec.Fair || a.hasRivals())
}

// hasRivals reports whether the store has lately refused the key to this client, because
// of another.
func (a *Attempt) hasRivals() bool {
	a.m.mu.Lock()
	refusedAt := a.m.keys[a.spec.Key].refusedAt
	a.m.mu.Unlock()
	return refusedAt != 0 && a.m.clock.Mono()-refusedAt < rivalsLast
}

// The pauses between polls. A waiter costs the store at most about 30 attempts
// a second.
const (
	minPause = 2 * time.Millisecond
	maxPause = 40 * time.Millisecond
	// maxFailPause is for a store that fails, or refuses the client's user: each attempt may be a new connection and a login.
	maxFailPause = time.Second
)

// nextPause is the pause after the next attempt, of which the one before, d, followed err.
func (a *Attempt) nextPause(d time.Duration, err error) time.Duration {
	most := maxPause
	if !errors.Is(err, driver.ErrLocked) {
		most = min(max(a.spec.outlasts/32, maxPause), maxFailPause)
	}
	return min(d*3/2, most)
}

// yield pauses a leader whose client has used up its hand-over window, so that another client
// which polls finds the key free. A store with a queue of its own sees to that itself.
func (a *Attempt) yield(ctx context.Context) error {
	if !a.yields || a.m.store.Queuer != nil {
		return nil
	}
	d := yieldAlone
	if a.hasRivals() {
		d = yieldAmong
	}
	return a.pause(ctx, d/2+a.m.jitter(a.spec.Key, d))
}

// How long a leader yields: among other clients, and where none was met lately.
//
// Measured on memcached and files with 2 and 4 processes of 4 goroutines that want one key and hold it
// for no time (medians of three interleaved runs; Jain's index over the goroutines, and locks a second
// as a share of those without yielding):
//
//	none          fairness 0.25 to 0.79: who has the key keeps it
//	2 ms, 0.5 ms  fairness 0.88 to 1.00, 0.41 to 0.73 of the locks
//	8 ms, 0.5 ms  fairness 0.98 to 1.00, 0.41 to 0.57 of the locks
//	32 ms, 4 ms   fairness 0.99 to 1.00, 0.16 to 0.32 of the locks
//
// A rival polls every 20 to 60 ms once it has waited for a moment, and meets a free key in the time
// that is yielded, so that less than 8 ms favours who was there.
const (
	yieldAmong = 8 * time.Millisecond
	yieldAlone = 500 * time.Microsecond
	rivalsLast = time.Second
)

// untilFree is how long to pause: about d, unless the lease in the way of key ends sooner, or the store serves.
func (m *Manager) untilFree(key string, err error, d time.Duration) time.Duration {
	d = d/2 + m.jitter(key, d)
	var locked *driver.LockedError
	if errors.As(err, &locked) && locked.Remaining > 0 {
		d = min(d, locked.Remaining+time.Millisecond)
	}
	var later *driver.NotYetError
	if errors.As(err, &later) {
		d = min(d, later.After+time.Millisecond)
	}
	return d
}

// passing reports whether an error may go away by itself.
func passing(err error) bool {
	return errors.Is(err, driver.ErrNotSent) || !driver.Definite(err)
}

// tryOnce makes one attempt at the store.
func (a *Attempt) tryOnce(ctx context.Context) (granted, error) {
	a.expectLoss()
	sent := a.m.clock.Now()
	g, err := a.m.store.TryLock(ctx, a.spec.Key, a.request())
	if err != nil && !driver.Definite(err) {
		a.mayHave(a.m.clock.Now())
		errs.AwaitEnd(ctx)
	}
	return granted{g, sent}, err
}

func (a *Attempt) request() driver.Request {
	// A lease that is not renewed, or that is to outlive its holder, is wanted whole.
	whole := a.spec.NoRenew || a.spec.MinHold > 0
	r := driver.Request{ID: a.id, TTL: a.spec.Lease, Fair: a.spec.Fair, Whole: whole, Share: a.spec.Share}
	if r.Share.Head = a.isHead; a.m.queues != nil {
		r.Fair = false // that is for the queue
	}
	return r
}

// expectLoss has losses of a noted from now on, before a call for it. One that was told before is not of what this
// call is granted.
func (a *Attempt) expectLoss() {
	m := a.m
	if m.asking == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asking[a.id], a.lost = a, nil
}

// contendQueued waits in the store's own queue. An attempt that gets there directly, and is
// not in the queue yet, fails as a try does.
func (a *Attempt) contendQueued(ctx context.Context) (granted, error) {
	m := a.m
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.life, cancel)()
	for pause := minPause; ; {
		sent := m.clock.Now()
		g, queued, err := a.lockQueued(waiting)
		now := m.clock.Now()
		if err == nil {
			return granted{g, sent}, nil
		}
		if !driver.Definite(err) {
			a.mayHave(now)
			errs.AwaitEnd(ctx)
		}
		if queued && !errors.Is(err, driver.ErrNotSent) {
			a.outage.ends(now) // it was in the queue until then, and may be yet
			pause = minPause
		}
		switch {
		case waiting.Err() != nil && (a.hasWaited() || ctx.Err() == nil):
			return granted{}, a.waitFailure(ctx)
		case !a.goesOn(ctx, err):
			return granted{}, a.outage.tell(ctx, err)
		}
		if ended := a.rest(ctx, err, pause); ended != nil {
			return granted{}, ended
		}
		pause = a.nextPause(pause, err)
	}
}

// lockQueued makes one call on the store's queue. queued is whether a was in that queue.
func (a *Attempt) lockQueued(ctx context.Context) (g driver.Grant, queued bool, err error) {
	a.expectLoss()
	g, err = a.m.store.Queuer.Lock(ctx, a.spec.Key, a.request(), func() {
		queued = true
		_ = a.refusedByStore(nil)
	})
	return g, queued, err
}

// pause sleeps, unless the wait ends first.
func (a *Attempt) pause(ctx context.Context, d time.Duration) error {
	if a.m.awaitChange(ctx, nil, nil, d) {
		return a.waitFailure(ctx)
	}
	return nil
}
