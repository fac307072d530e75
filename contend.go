package coord

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// contend asks the store for a until it says yes, or something ends the wait.
// It asks again with jittered pauses, unless the store has a queue of its own.
func (c *Client) contend(ctx context.Context, a *attempt, try bool) (granted, error) {
	if a.id == "" {
		a.id = c.newID()
	}
	if err := c.yield(ctx, a); err != nil {
		return granted{}, err
	}
	if !try && c.goesDirect(a) {
		return c.contendQueued(ctx, a)
	}
	answered := c.clock.Now()
	for pause := minPause; ; pause = min(pause*3/2, maxPause) {
		g, err := c.tryOnce(ctx, a)
		inLine := a.waits || a.queued
		switch {
		case err == nil:
			return g, nil
		case errors.Is(err, ErrLocked):
			answered = c.clock.Now()
			c.refusedOnce(a)
			switch {
			case try:
				return g, err
			case c.locks.queuer != nil && ctx.Err() == nil:
				return c.contendQueued(ctx, a)
			}
		case ctx.Err() != nil && inLine:
			return g, c.waitFailure(ctx)
		case try || !inLine || !passing(err) || answered.Add(a.cfg.lease).Reached(c.clock.Now()):
			return g, errs.OfStore(ctx, err, true)
		}
		if err := c.pause(ctx, untilFree(err, pause)); err != nil {
			return g, err
		}
	}
}

// goesDirect reports whether a asks for a place in the store's line without a try before:
// a fair one does, and one of a key that other clients held lately.
func (c *Client) goesDirect(a *attempt) bool {
	if c.locks.direct == nil {
		return false
	}
	return a.cfg.fair || c.hasRivals(a)
}

// hasRivals reports whether the store has lately refused the key to this client, because
// of another.
func (c *Client) hasRivals(a *attempt) bool {
	c.mu.Lock()
	rivals := a.slot.rivals
	c.mu.Unlock()
	return rivals != 0 && c.clock.Mono()-rivals < rivalsLast
}

// The pauses between polls. A waiter costs the store at most about 30 attempts
// a second.
const (
	minPause = 2 * time.Millisecond
	maxPause = 40 * time.Millisecond
)

// yield pauses a leader whose client has used up its turn, so that another client
// which polls finds the key free. A store with a line of its own sees to that itself.
func (c *Client) yield(ctx context.Context, a *attempt) error {
	if !a.yields || c.locks.queuer != nil {
		return nil
	}
	a.yields = false
	d := yieldAlone
	if c.hasRivals(a) {
		d = yieldAmong
	}
	return c.pause(ctx, d/2+rand.N(d))
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

// untilFree is how long to pause: about d, unless the lease in the way ends sooner.
func untilFree(err error, d time.Duration) time.Duration {
	d = d/2 + rand.N(d)
	var locked *driver.LockedError
	if errors.As(err, &locked) && locked.Remaining > 0 {
		d = min(d, locked.Remaining+time.Millisecond)
	}
	return d
}

// passing reports whether an error may go away by itself.
func passing(err error) bool {
	return errors.Is(err, driver.ErrNotSent) || !driver.Definite(err)
}

// tryOnce makes one attempt at the store.
func (c *Client) tryOnce(ctx context.Context, a *attempt) (granted, error) {
	c.expectLoss(a)
	sent := c.clock.Now()
	g, err := c.locks.TryLock(ctx, a.key, a.request())
	if err != nil && !driver.Definite(err) {
		a.mayHave(c.clock.Now())
		errs.AwaitEnd(ctx)
	}
	return granted{g, sent}, err
}

func (a *attempt) request() driver.Request {
	// A lease that is not renewed, or that is to outlive its holder, is wanted whole.
	whole := a.cfg.noRenew || a.cfg.minHold > 0
	return driver.Request{ID: a.id, TTL: a.cfg.lease, Fair: a.cfg.fair, Whole: whole}
}

// mayHave notes a call that was given up at now and may have taken the lock, or may
// yet do so: the store may apply what it still has in its hands.
func (a *attempt) mayHave(now clock.Instant) {
	a.sends++
	a.ghost = now.Add(a.cfg.lease)
}

// contendQueued waits in the store's own queue. An attempt that gets there directly, and is
// not in line yet, fails as a try does.
func (c *Client) contendQueued(ctx context.Context, a *attempt) (granted, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	answered := c.clock.Now()
	for pause := minPause; ; pause = min(pause*3/2, maxPause) {
		sent := c.clock.Now()
		g, lined, err := c.lockInLine(waiting, a)
		now := c.clock.Now()
		if err == nil {
			a.lined = a.waits
			return granted{g, sent}, nil
		}
		if !driver.Definite(err) {
			a.mayHave(now)
			errs.AwaitEnd(ctx)
		}
		if lined || c.locks.direct == nil && now.Mono-sent.Mono > maxPause { // it was in line until then
			answered = now
		}
		inLine := a.waits || a.queued
		switch {
		case waiting.Err() != nil && (inLine || ctx.Err() == nil):
			return granted{}, c.waitFailureOf(ctx, a)
		case !inLine || !passing(err) || answered.Add(a.cfg.lease).Reached(c.clock.Now()):
			return granted{}, errs.OfStore(ctx, err, true)
		}
		if err := c.pause(ctx, pause); err != nil {
			return granted{}, err
		}
	}
}

// lockInLine makes one call on the store's queue. lined is whether a was in line in it, where
// the store can tell.
func (c *Client) lockInLine(ctx context.Context, a *attempt) (g driver.Grant, lined bool, err error) {
	c.expectLoss(a)
	if c.locks.direct == nil {
		g, err = c.locks.queuer.Lock(ctx, a.key, a.request())
		return g, false, err
	}
	g, err = c.locks.direct.LockDirect(ctx, a.key, a.request(), func() {
		lined = true
		c.refusedOnce(a)
	})
	return g, lined, err
}

// pause sleeps, unless the wait ends first.
func (c *Client) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
	case <-c.life.Done():
	}
	return c.waitFailure(ctx)
}

// since is the instant from which g's lease certainly runs.
func (c *Client) since(g granted) clock.Instant {
	if g.Since.IsZero() {
		return g.sent
	}
	return c.clock.At(g.Since)
}

// margin is what is taken off a lease for clocks that drift apart.
func margin(ttl time.Duration) time.Duration {
	return max(ttl/100, 5*time.Millisecond)
}

// deadlineOf is until when a grant is certain.
func (c *Client) deadlineOf(g granted) clock.Instant {
	return c.since(g).Add(g.TTL - margin(g.TTL))
}

// newHold makes a hold of a grant. A grant whose lease has run out on the way is
// refused, and left to the janitor.
func (c *Client) newHold(a *attempt, g granted) (*hold, error) {
	now := c.clock.Now()
	deadline := c.deadlineOf(g)
	token, err := makeToken(g.Token, c.floor, 0)
	if err == nil && deadline.Reached(now) {
		err = errs.Chain(ErrUnavailable, fmt.Errorf("the grant of a lease of %v came %v after it was asked for", g.TTL, now.Mono-g.sent.Mono))
	}
	if err != nil {
		a.mayHave(now)
		return nil, err
	}
	h := &hold{
		c: c, name: a.name, key: a.key, id: a.id, cfg: a.cfg,
		stored: g.Token, ttl: g.TTL,
		renewAt: c.since(g).Add(g.TTL / 3),
		sends:   a.sends, ghost: a.ghost, heapIndex: -1,
	}
	h.deadline.Store(deadline)
	h.turn = now.Mono + turn
	h.tenure = &h.first
	h.first.begin(h, &h.cfg, token, a.owner, now)
	return h, nil
}

// begin makes t a tenure of h, from now on.
func (t *tenure) begin(h *hold, cfg *lockConfig, token Token, o *owner, now clock.Instant) {
	t.h, t.cfg, t.token, t.owner, t.granted, t.depth = h, cfg, token, o, now, 1
	t.first.t = t
	if cfg.maxHold > 0 {
		t.endBy = now.Add(cfg.maxHold)
	}
}
