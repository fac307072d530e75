package coord

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/host"
)

// Lead runs fn while this process leads key, and campaigns again after each loss, until fn returns
// while it leads, or ctx ends. At most one process leads a key at a time, as far as a lease goes:
// inside fn, [Held] gives the lock, whose Token names the term and fences what fn writes.
//
// fn's ctx ends when the term is lost, with cause ErrLost, and when ctx ends. fn must return then: the
// next term in this call begins only after that, and the key is given back only after that. A function
// that outlives its term is logged, a moment after the loss and then once per TTL. A panic of fn gives the
// key back and goes on.
//
// Lead returns what fn returned, if the key was held until then. If ctx ends while it waits, the error
// matches ctx's. What fn returned after a loss is not returned: an error other than the loss is logged. An
// outage of the store, a loss and an unknown outcome are no reason to return: Lead logs them and campaigns
// again, after pauses that grow to a tenth of the TTL, at most 2 s. After a loss it gives way: while the key is
// kept taken, as after a [Client.Break], and for a moment more it does not campaign, so that another
// candidate that waits comes first. Lead returns on ErrClosed, and on ErrInvalid and ErrUnsupported before its first
// term, unless the error tells that it may go away by itself. Where l is a Client, or a view of one, its Close
// ends a pause at once.
//
// MaxHold bounds a term. WaitAtMost is ErrInvalid, and one that is a default of the client is not
// applied: ctx bounds the wait. NoRenew is ErrInvalid, and so is MinHold, which would keep the key from the
// next leader. A campaign enters no hold of its key: inside a Do of the same key it waits for
// that Do to end. Calls may run concurrently; two for one key are two candidates. Goroutines that fn starts with its ctx
// take turns inside any key, as those of [Do] do.
func Lead(ctx context.Context, l Locker, key string, fn func(context.Context) error, opts ...LockOption) error {
	c := newCandidate(l, key, opts)
	for {
		t := &term{fn: fn, log: c.log}
		err := Do(without(ctx, key), l, key, t.run, c.opts...)
		if own, ok := err.(*ownEnd); ok {
			return own.error
		}
		if err == nil || ctx.Err() != nil || c.cannotLead(t, err) {
			return err
		}
		c.note(t, err)
		c.giveWay(ctx, t)
		if !c.rest(ctx) {
			return &Error{Op: "lead", Key: key, Err: errs.ContextError(ctx)}
		}
	}
}

// isFinal reports whether no later call could succeed either.
func isFinal(err error) bool {
	if errors.Is(err, ErrClosed) {
		return true
	}
	var state interface{ Temporary() bool } // of the store, and no mistake of the call
	if errors.As(err, &state) && state.Temporary() {
		return false
	}
	return errors.Is(err, ErrInvalid) || errors.Is(err, ErrUnsupported)
}

// candidate is one call of Lead.
type candidate struct {
	key     string
	opts    []LockOption
	log     *slog.Logger
	longest time.Duration // of the pauses between campaigns
	pause   time.Duration // the next one, at most
	failing bool          // the last campaign failed, which was logged
	led     bool          // it has had a term: key and options are right
	closed  chan struct{} // when the client is; nil if it is not known
	jitter  func(key string, d time.Duration) time.Duration
}

// The pauses between campaigns: the first one after a campaign that failed, the first one after a term, and the longest,
// unless a tenth of the TTL is less. They are jittered down to a half. After a term the pause is longer than any between
// two polls of a candidate that waits.
const (
	firstRest   = 10 * time.Millisecond
	termRest    = 150 * time.Millisecond
	longestRest = 2 * time.Second
)

func newCandidate(l Locker, key string, opts []LockOption) *candidate {
	c := &candidate{key: key, opts: append(slices.Clip(opts), LockOption{field: fieldOfLead, value: 1}), log: slog.Default(), pause: firstRest, jitter: host.Random}
	ttl := DefaultTTL
	if client, _ := clientBehind(l); client != nil {
		c.log, c.closed, c.jitter, ttl = client.log, client.done, client.jitter, client.defaults.ttl
	}
	for _, o := range opts {
		if o.field == fieldTTL {
			ttl = o.value
		}
	}
	c.longest = max(min(ttl/10, longestRest), firstRest)
	return c
}

// cannotLead reports whether no later campaign could lead either. A mistake shows before the first term.
func (c *candidate) cannotLead(t *term, err error) bool {
	return !t.began && isFinal(err) && (!c.led || errors.Is(err, ErrClosed))
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
	c.failing, c.led = false, true
	if c.pause = min(max(c.pause, termRest), c.longest); t.lasted >= c.longest {
		c.pause = min(termRest, c.longest)
	}
	var own *ownEnd
	if errors.As(err, &own) && !errors.Is(own, context.Canceled) && !errors.Is(own, ErrNotHeld) {
		c.log.Warn("coord: a leader's function failed in a term that was lost; it campaigns again", "key", c.key, "error", own)
	}
}

// giveWay waits while the key of a term that was lost is kept taken. Who campaigns then would race with those
// who have waited, on a store that has no line.
func (c *candidate) giveWay(ctx context.Context, t *term) {
	for t.began && t.lock.space() == exclusive && ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, time.Second)
		h, err := t.lock.h.c.inspect(bounded, t.lock.Key())
		cancel()
		if err != nil || !h.Released || !c.sleep(ctx, max(h.TTL, shortestLook)) {
			return
		}
	}
}

// shortestLook is between two looks at a key that should be free by now.
const shortestLook = 40 * time.Millisecond

// rest pauses before the next campaign. It reports false if ctx ended first.
func (c *candidate) rest(ctx context.Context) bool {
	pause := c.pause
	c.pause = min(2*c.pause, c.longest)
	return c.sleep(ctx, pause/2+c.jitter(c.key, pause/2))
}

// sleep ends early when the client is closed, and reports false when ctx ended first.
func (c *candidate) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.closed:
	case <-ctx.Done():
		return false
	}
	return true
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
	lock   *Lock // once it has begun
	lasted time.Duration
}

// run is the function of the term's Do.
func (t *term) run(ctx context.Context) error {
	start := time.Now()
	t.began = true
	t.lock = ctx.(*holdCtx).lock.Load() // the owner is fresh: no outer Do has bound ctx
	returned := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { warnOfOverrun(t.log, t.lock, returned) })
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

// warnOfOverrun logs, a moment after the term is lost and then once per TTL, that its function has not returned.
func warnOfOverrun(log *slog.Logger, lock *Lock, returned <-chan struct{}) {
	select {
	case <-lock.Done():
	case <-returned:
		return
	}
	lost, ttl := time.Now(), lock.TTL()
	for wait := min(ttl/10, longestMoment); ; wait = ttl {
		next := time.NewTimer(wait)
		select {
		case <-next.C:
		case <-returned:
			next.Stop()
			return
		}
		log.Warn("coord: a term as leader was lost, and its function has not returned: nothing but its context can stop it",
			"key", lock.Key(), "token", lock.Token(), "since", time.Since(lost))
	}
}

// longestMoment is what a leader's function has for returning before it is logged.
const longestMoment = time.Second
