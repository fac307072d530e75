package coord

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/hold"
)

// Re-entry is kept here, once, above every store. An owner is a token that
// travels in a context; within one Client, an owner that holds a key enters again
// without asking the store, shares the hold and its fencing token, and the last
// Unlock frees the key. The goroutine's id would not do, because work moves between
// goroutines.

// owner is one goroutine's identity, and its table of holds.
type owner struct {
	n       uint64
	mu      sync.Mutex // guards what follows, and every entry
	entries map[entryKey]*entry
	recent  *entry // entered last, to spare the map
}

// entryKey is a key of a client, as the application gave it.
type entryKey struct {
	c   *Client
	key string
}

// entry is an owner's hold on a key, or its way there. Several goroutines of one owner share one attempt.
// They should not share an owner; if they do, one asks the store, and when it is cancelled another goes on in its
// place.
type entry struct {
	owner *owner
	key   entryKey
	cfg   lockConfig // as the first of them asked

	on      *acquisition // until it is granted
	members int          // goroutines that want it
	baton   chan struct{}
	refused chan struct{} // closed by refusal, once the key is known to be taken
	refusal sync.Once
	settled chan struct{} // closed when held is set

	held  *held  // from the grant on
	depth int    // handles not yet unlocked
	spare []Lock // handles for re-entry, made a few at a time
}

// noteRefused tells those that joined with TryLock that there is a wait.
func (e *entry) noteRefused() { e.refusal.Do(func() { close(e.refused) }) }

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
	e := o.recent
	if e == nil || e.key.c != c || e.key.key != key {
		e = o.entries[entryKey{c, key}]
		if e == nil || e.held == nil {
			o.mu.Unlock()
			return nil, nil
		}
		o.recent = e
	}
	return e.enter(cfg)
}

// enter counts one entry more and gives its handle, nil if the hold was given back meanwhile. owner.mu is held, and
// is free when enter returns.
func (e *entry) enter(cfg *lockConfig) (*Lock, error) {
	if !e.held.t.Holds() {
		e.owner.mu.Unlock() // observers are told of the loss, and may lock
		if err := e.held.t.Check(); err != nil {
			return nil, err
		}
		e.owner.mu.Lock()
	}
	defer e.owner.mu.Unlock()
	if e.depth == 0 {
		return nil, nil
	}
	if cfg.given != 0 {
		if err := e.cfg.accepts(cfg); err != nil {
			return nil, err
		}
	}
	if e.depth >= maxDepth {
		return nil, fmt.Errorf("%w: re-entry deeper than %d", ErrInvalid, maxDepth)
	}
	e.depth++
	return e.handle(), nil
}

// handle makes a handle. They are made a few at a time, which spares
// the allocator; each is used once. owner.mu is held.
func (e *entry) handle() *Lock {
	if len(e.spare) == 0 {
		e.spare = make([]Lock, 32)
	}
	l := &e.spare[0]
	e.spare = e.spare[1:]
	l.h = e.held
	return l
}

// accepts refuses a re-entry that asks for another hold than the one there is.
func (cfg *lockConfig) accepts(re *lockConfig) error {
	differs := re.given&fieldTTL != 0 && re.ttl != cfg.ttl ||
		re.given&fieldMaxHold != 0 && re.maxHold != cfg.maxHold ||
		re.given&fieldMinHold != 0 && re.minHold != cfg.minHold ||
		re.given&fieldNoRenew != 0 && re.noRenew != cfg.noRenew ||
		re.given&fieldFair != 0 && re.fair != cfg.fair ||
		re.given&fieldHolder != 0 && re.holder != cfg.holder
	if differs {
		return fmt.Errorf("%w: re-entry with other options than the hold's: want none, or the same", ErrInvalid)
	}
	return nil
}

// leave counts one handle less, and reports whether it was the last. Only the last looks at the clocks, when it
// releases the hold: until then the scheduler's word will do.
func (e *entry) leave() (last bool, err error) {
	o := e.owner
	o.mu.Lock()
	defer o.mu.Unlock()
	e.depth--
	if e.depth > 0 {
		return false, e.held.t.Ended()
	}
	if o.recent == e {
		o.recent = nil
	}
	if o.entries[e.key] == e {
		delete(o.entries, e.key)
	}
	return true, nil
}

// lockOwned takes a lock for an owner. Only its first entry gets here, and goroutines
// that enter at the same time join it.
func (c *Client) lockOwned(ctx context.Context, o *owner, spec hold.Spec, cfg *lockConfig, try bool, w *lockWatch) (*Lock, error) {
	o.mu.Lock()
	e := o.entries[entryKey{c, spec.Name}]
	switch {
	case e == nil:
		e = o.newEntry(c, spec, cfg)
		o.mu.Unlock()
		return e.drive(ctx, try, w)
	case e.held != nil: // it was granted since the caller looked
		l, err := e.enter(cfg)
		if l == nil && err == nil {
			return c.lockOwned(ctx, o, spec, cfg, try, w)
		}
		return l, err
	}
	if err := e.cfg.accepts(cfg); err != nil {
		o.mu.Unlock()
		return nil, err
	}
	e.members++
	o.mu.Unlock()
	var refused chan struct{} // a try does not wait with the others
	if try {
		refused = e.refused
	} else {
		w.Waits("")
	}
	select {
	case <-refused:
		return e.depart(ErrLocked, false)
	case <-e.settled:
		return e.share(), nil
	case <-e.baton:
		return e.drive(ctx, try, w)
	case <-ctx.Done():
		return e.depart(errs.Chain(ErrLocked, errs.OfContext(ctx)), false)
	}
}

// newEntry begins an attempt of o. owner.mu is held.
func (o *owner) newEntry(c *Client, spec hold.Spec, cfg *lockConfig) *entry {
	e := &entry{
		owner: o, key: entryKey{c, spec.Name}, cfg: *cfg, on: &acquisition{}, members: 1,
		baton: make(chan struct{}, 1), refused: make(chan struct{}), settled: make(chan struct{}),
	}
	spec.Refused = e.noteRefused
	e.on.attempt.Begin(c.locks, spec)
	if o.entries == nil {
		o.entries = make(map[entryKey]*entry)
	}
	o.entries[e.key] = e
	return e
}

// drive runs the attempt of an entry on behalf of all its members.
func (e *entry) drive(ctx context.Context, try bool, w *lockWatch) (*Lock, error) {
	returned := false
	defer errs.IfPanics(&returned, func() { _, _ = e.depart(ErrUnknownOutcome, true) })
	t, err := e.on.attempt.Run(ctx, try, w.trace())
	returned = true
	if err != nil {
		return e.depart(err, true)
	}
	e.owner.mu.Lock()
	defer e.owner.mu.Unlock()
	l := e.on.handle(e.key.c, t, e)
	e.on, e.held, e.depth = nil, l.h, e.members
	close(e.settled)
	return l, nil
}

// share is a member's part in a settled attempt: its own handle.
func (e *entry) share() *Lock {
	e.owner.mu.Lock()
	defer e.owner.mu.Unlock()
	return e.handle()
}

// depart takes a member out of an attempt that failed it. The last one ends
// the attempt; when the one that drove it leaves, another goes on.
func (e *entry) depart(err error, drove bool) (*Lock, error) {
	o := e.owner
	o.mu.Lock()
	if e.held != nil { // granted at the same moment
		o.mu.Unlock()
		return e.share(), nil
	}
	e.members--
	if e.members > 0 {
		if drove {
			e.baton <- struct{}{} // it has room: only the driver sends
		}
		o.mu.Unlock()
		return nil, err
	}
	delete(o.entries, e.key)
	o.mu.Unlock()
	e.on.attempt.Abandon()
	return nil, err
}
