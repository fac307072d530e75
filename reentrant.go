package coord

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
)

// Re-entry is kept here, once, above every store. An owner is a token that
// travels in a context; within one Client, an owner that holds a key enters again
// without asking the store, shares the hold and its fencing token, and the last
// Unlock frees the key. Why a token and not the goroutine's id: docs/reentrancy.md.

// owner is one goroutine's identity, and its table of holds.
type owner struct {
	n       uint64
	mu      sync.Mutex // guards what follows, and the joint of every attempt in entries
	entries map[entryKey]*entry
	recent  *tenure // entered last, to spare the map
}

// entryKey is a key of a client, as the application gave it.
type entryKey struct {
	c   *Client
	key string
}

// entry is an owner's hold on a key, or its way there.
type entry struct {
	attempt *attempt // until it is granted
	tenure  *tenure  // from then on
}

// joint lets several goroutines of one owner share one attempt. They should
// not share an owner; if they do, one asks the store, and when it is cancelled
// another goes on in its place.
type joint struct {
	members int
	baton   chan struct{} // to the member that goes on
	refused chan struct{} // closed by refusal, once the key is known to be taken
	refusal sync.Once
	settled chan struct{} // closed when tenure is set
	tenure  *tenure
}

// noteRefusal tells those that joined with TryLock that there is a wait.
func (j *joint) noteRefusal() {
	if j.refused != nil {
		j.refusal.Do(func() { close(j.refused) })
	}
}

// maxDepth is how often an owner enters one key before that is taken for a mistake.
const maxDepth = 1000

type ownerCtxKey struct{}

var owners atomic.Uint64

// WithOwner gives ctx a fresh owner: locks taken under it re-enter one
// another. It hides the owner that ctx had, if any. One goroutine uses one
// owner at a time; start another with [Go].
func WithOwner(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownerCtxKey{}, &owner{n: owners.Add(1)})
}

// Go runs fn in a new goroutine under a fresh owner, so that it does not share
// the caller's locks: two goroutines of one owner exclude nobody.
func Go(ctx context.Context, fn func(context.Context)) {
	ctx = WithOwner(ctx)
	go fn(ctx)
}

func ownerOf(ctx context.Context) *owner {
	o, _ := ctx.Value(ownerCtxKey{}).(*owner)
	return o
}

// String names the owner in logs.
func (o *owner) String() string {
	if o == nil {
		return "none"
	}
	return "owner-" + strconv.FormatUint(o.n, 10)
}

// reenter gives another handle on what o holds of key, nil if it holds nothing.
func (o *owner) reenter(c *Client, key string, cfg *lockConfig) (*Lock, error) {
	o.mu.Lock()
	t := o.recent
	if t == nil || t.h.c != c || t.h.name != key {
		e := o.entries[entryKey{c, key}]
		if e == nil || e.tenure == nil {
			o.mu.Unlock()
			return nil, nil
		}
		t = e.tenure
		o.recent = t
	}
	l, err := t.enter(cfg)
	o.mu.Unlock()
	return l, err
}

// enter counts one entry more and gives its handle. owner.mu is held.
func (t *tenure) enter(cfg *lockConfig) (*Lock, error) {
	// The monotonic clock will do: the scheduler watches the other one.
	if t.over.Load() || t.lapsed(t.h.c.clock.Mono()) {
		if err := t.check(); err != nil {
			return nil, err
		}
	}
	if cfg.given != 0 {
		if err := t.cfg.accepts(cfg); err != nil {
			return nil, err
		}
	}
	if t.depth >= maxDepth {
		return nil, fmt.Errorf("%w: re-entry deeper than %d", ErrInvalid, maxDepth)
	}
	t.depth++
	return t.handle(), nil
}

// handle makes a handle. They are made a few at a time, which spares
// the allocator; each is used once. owner.mu is held.
func (t *tenure) handle() *Lock {
	if len(t.spare) == 0 {
		t.spare = make([]Lock, 32)
	}
	l := &t.spare[0]
	t.spare = t.spare[1:]
	l.t = t
	return l
}

// accepts refuses a re-entry that asks for another hold than the one there is.
func (cfg *lockConfig) accepts(re *lockConfig) error {
	differs := re.given&fieldTTL != 0 && re.ttl != cfg.ttl ||
		re.given&fieldMaxHold != 0 && re.maxHold != cfg.maxHold ||
		re.given&fieldMinHold != 0 && re.minHold != cfg.minHold ||
		re.given&fieldNoRenew != 0 && re.noRenew != cfg.noRenew ||
		re.given&fieldFair != 0 && re.fair != cfg.fair
	if differs {
		return fmt.Errorf("%w: re-entry with other options than the hold's: want none, or the same", ErrInvalid)
	}
	return nil
}

// leave counts one handle less, and reports whether it was the last. Only the
// last looks at the clocks, and says when: until then the scheduler's word will do.
func (t *tenure) leave() (last bool, now clock.Instant, err error) {
	o := t.owner
	if o == nil {
		now = t.h.c.clock.Now()
		return true, now, asLoss(t.checkAt(now))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	t.depth--
	if t.depth > 0 {
		if t.over.Load() {
			err = t.ended()
		}
		return false, now, asLoss(err)
	}
	o.forget(t)
	now = t.h.c.clock.Now()
	return true, now, asLoss(t.checkAt(now))
}

// asLoss is err as Unlock tells it: a handle that was not unlocked before has
// lost its hold.
func asLoss(err error) error {
	if err == errReleased {
		return ErrLost
	}
	return err
}

// forget takes a tenure out of the table. owner.mu is held.
func (o *owner) forget(t *tenure) {
	if o.recent == t {
		o.recent = nil
	}
	k := entryKey{t.h.c, t.h.name}
	if e := o.entries[k]; e != nil && e.tenure == t {
		delete(o.entries, k)
	}
}

// lockOwned takes a lock for an owner. Only its first entry gets here, and goroutines
// that enter at the same time join it.
func (c *Client) lockOwned(ctx context.Context, a *attempt, try bool, w *lockWatch) (*Lock, error) {
	o := a.owner
	k := entryKey{c, a.name}
	o.mu.Lock()
	e := o.entries[k]
	switch {
	case e == nil:
		j := &a.joint
		j.members, j.baton, j.refused, j.settled = 1, make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
		if o.entries == nil {
			o.entries = make(map[entryKey]*entry)
		}
		e = &entry{attempt: a}
		o.entries[k] = e
		o.mu.Unlock()
		return c.drive(ctx, e, a, try, w)
	case e.tenure != nil: // it was granted since the caller looked
		defer o.mu.Unlock()
		return e.tenure.enter(&a.cfg)
	}
	first := e.attempt
	if err := first.cfg.accepts(&a.cfg); err != nil {
		o.mu.Unlock()
		return nil, err
	}
	first.joint.members++
	o.mu.Unlock()
	var refused chan struct{} // a try does not wait with the others
	if try {
		refused = first.joint.refused
	} else {
		w.wait("")
	}
	select {
	case <-refused:
		return c.depart(first, ErrLocked, false)
	case <-first.joint.settled:
		return first.share(), nil
	case <-first.joint.baton:
		return c.drive(ctx, e, first, try, w)
	case <-ctx.Done():
		return c.depart(first, errs.Chain(ErrLocked, errs.OfContext(ctx)), false)
	}
}

// drive runs the attempt of an entry on behalf of all its members.
func (c *Client) drive(ctx context.Context, e *entry, a *attempt, try bool, w *lockWatch) (*Lock, error) {
	returned := false
	defer errs.IfPanics(&returned, func() { _, _ = c.depart(a, ErrUnknownOutcome, true) })
	t, err := c.run(ctx, a, try, w)
	returned = true
	if err != nil {
		return c.depart(a, err, true)
	}
	o := a.owner
	o.mu.Lock()
	defer o.mu.Unlock()
	t.depth = a.joint.members
	e.attempt, e.tenure = nil, t
	a.joint.tenure = t
	close(a.joint.settled)
	return &t.first, nil
}

// share is a member's part in a settled attempt: its own handle.
func (a *attempt) share() *Lock {
	a.owner.mu.Lock()
	defer a.owner.mu.Unlock()
	return a.joint.tenure.handle()
}

// depart takes a member out of an attempt that failed it. The last one ends
// the attempt; when the one that drove it leaves, another goes on.
func (c *Client) depart(a *attempt, err error, drove bool) (*Lock, error) {
	o := a.owner
	o.mu.Lock()
	if a.joint.tenure != nil { // granted at the same moment
		o.mu.Unlock()
		return a.share(), nil
	}
	a.joint.members--
	if a.joint.members > 0 {
		if drove {
			a.joint.baton <- struct{}{} // it has room: only the driver sends
		}
		o.mu.Unlock()
		return nil, err
	}
	delete(o.entries, entryKey{c, a.name})
	o.mu.Unlock()
	c.abandon(a)
	return nil, err
}
