package coord

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/internal/errs"
)

// Lead runs fn while this process leads key, and campaigns again after each loss, until fn returns
// while it leads, or ctx ends. At most one process leads a key at a time, as far as a lease goes:
// inside fn, [Held] gives the lock, whose Token names the term and fences what fn writes.
//
// fn's ctx ends when the term is lost, with cause ErrLost, and when ctx ends. fn must return then: the
// next term in this call begins only after that, and the key is given back only after that. A function
// that outlives its term is logged, at once and once per TTL. A panic of fn gives the key back and goes on.
//
// Lead returns what fn returned, if the key was held until then. If ctx ends while it waits, the error
// matches ctx's. What fn returned after a loss is not returned: an error other than the loss is logged. An
// outage of the store, a loss and an unknown outcome are no reason to return: Lead logs them and campaigns
// again, after pauses that grow to a tenth of the TTL, at most 2 s. It returns on ErrInvalid,
// ErrUnsupported and ErrClosed.
//
// MaxHold bounds a term. WaitAtMost is ErrInvalid, and one that is a default of the client is not
// applied: ctx bounds the wait. NoRenew is ErrInvalid, and so is MinHold, which would keep the key from the
// next leader. Each call has an owner of its own, also for each term: inside a Do of the same key it waits for
// that Do to end. Calls may run concurrently; two for one key are two candidates.
func Lead(ctx context.Context, l Locker, key string, fn func(context.Context) error, opts ...LockOption) error {
	c := newCandidate(l, key, opts)
	for {
		t := &term{fn: fn, log: c.log}
		err := Do(WithOwner(ctx), l, key, t.run, c.opts...)
		if own, ok := err.(*ownEnd); ok {
			return own.error
		}
		if err == nil || ctx.Err() != nil || !t.began && isFinal(err) {
			return err
		}
		c.note(t, err)
		if !c.rest(ctx) {
			return &Error{Op: "lead", Key: key, Err: errs.OfContext(ctx)}
		}
	}
}

// isFinal reports whether no later campaign could succeed either.
func isFinal(err error) bool {
	return errors.Is(err, ErrInvalid) || errors.Is(err, ErrUnsupported) || errors.Is(err, ErrClosed)
}

// candidate is one call of Lead.
type candidate struct {
	key     string
	opts    []LockOption
	log     *slog.Logger
	longest time.Duration // of the pauses between campaigns
	pause   time.Duration // the next one
	failing bool          // the last campaign failed, which was logged
}

// The pauses between campaigns that fail: the first, and the longest, unless a tenth of the TTL is less.
const (
	firstRest   = 10 * time.Millisecond
	longestRest = 2 * time.Second
)

func newCandidate(l Locker, key string, opts []LockOption) *candidate {
	c := &candidate{key: key, opts: append(slices.Clip(opts), LockOption{field: fieldOfLead, value: 1}), log: slog.Default(), pause: firstRest}
	ttl := DefaultTTL
	if client := clientBehind(l); client != nil {
		c.log, ttl = client.log, client.defaults.ttl
	}
	for _, o := range opts {
		if o.field == fieldTTL {
			ttl = o.value
		}
	}
	c.longest = max(min(ttl/10, longestRest), firstRest)
	return c
}

// note logs why there is another campaign. A term that lasted ends a row of failures.
func (c *candidate) note(t *term, err error) {
	if !t.began {
		if !c.failing {
			c.log.Warn("coord: a campaign failed; more failures in a row are not logged", "key", c.key, "error", err)
		}
		c.failing = true
		return
	}
	c.failing = false
	if t.lasted >= c.longest {
		c.pause = firstRest
	}
	var own *ownEnd
	if errors.As(err, &own) && !errors.Is(own, context.Canceled) && !errors.Is(own, ErrNotHeld) {
		c.log.Warn("coord: a leader's function failed in a term that was lost; it campaigns again", "key", c.key, "error", own)
	}
}

// rest pauses before the next campaign. It reports false if ctx ended first.
func (c *candidate) rest(ctx context.Context) bool {
	timer := time.NewTimer(c.pause/2 + rand.N(c.pause))
	defer timer.Stop()
	c.pause = min(2*c.pause, c.longest)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ownEnd is what a leader's function returned. As the whole error of a Do it says that the key was held until
// then: Do adds a loss to it.
type ownEnd struct{ error }

func (e *ownEnd) Unwrap() error { return e.error }

// term is one campaign, and the time as leader that it may lead to.
type term struct {
	fn     func(context.Context) error
	log    *slog.Logger
	began  bool
	lasted time.Duration
}

// run is the function of the term's Do.
func (t *term) run(ctx context.Context) error {
	start := time.Now()
	t.began = true
	lock := ctx.(*holdCtx).lock // the owner is fresh: no outer Do has bound ctx
	returned := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { t.warnOfOverrun(lock, returned) })
	defer func() {
		t.lasted = time.Since(start)
		close(returned)
		watching.Wait()
	}()
	if err := t.fn(ctx); err != nil {
		return &ownEnd{err}
	}
	return nil
}

// warnOfOverrun logs, once the term is lost and then once per TTL, that its function has not returned.
func (t *term) warnOfOverrun(lock *Lock, returned <-chan struct{}) {
	select {
	case <-lock.Done():
	case <-returned:
		return
	}
	lost, ttl := time.Now(), lock.TTL()
	again := time.NewTicker(ttl)
	defer again.Stop()
	for {
		t.log.Warn("coord: a term as leader was lost, and its function has not returned: nothing but its context can stop it",
			"key", lock.Key(), "token", lock.Token(), "since", time.Since(lost))
		select {
		case <-again.C:
		case <-returned:
			return
		}
	}
}
