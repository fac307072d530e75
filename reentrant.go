package coord

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/coordgo/coord/driver"
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
	c     *Client
	space space
	key   string
}

// entry is an owner's hold on a key, or its way there. Several goroutines of one owner share one attempt.
// They should not share an owner; if they do, one asks the store, and when it is cancelled another goes on in its
// place.
type entry struct {
	owner *owner
	key   entryKey
	cfg   lockConfig // as the first of them asked
	share driver.Share

	on      *acquisition // until it is granted
	members int          // goroutines that want it
	baton   chan struct{}
	refused chan struct{} // closed by refusal, once the key is known to be taken
	refusal sync.Once
	settled chan struct{} // closed when held is set

	held  *held // from the grant on
	depth int   // handles not yet unlocked

	writers int    // of the members, and then of the handles, those that write
	spare   []Lock // handles for re-entry, made a few at a time
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
func (o *owner) reenter(key entryKey, cfg *lockConfig, share driver.Share) (*Lock, error) {
	o.mu.Lock()
	e := o.recent
	if e == nil || e.key != key {
		e = o.entries[key]
		if e == nil || e.held == nil {
			o.mu.Unlock()
			return nil, nil
		}
		o.recent = e
	}
	return e.enter(cfg, share)
}

// enter counts one entry more and gives its handle, nil if the hold was given back meanwhile. owner.mu is held, and
// is free when enter returns.
func (e *entry) enter(cfg *lockConfig, share driver.Share) (*Lock, error) {
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
	if err := e.accepts(cfg, share); err != nil {
		return nil, err
	}
	if e.depth >= maxDepth {
		return nil, fmt.Errorf("%w: re-entry deeper than %d", ErrInvalid, maxDepth)
	}
	e.depth++
	e.count(share, 1)
	return e.handle(share), nil
}

// handle makes a handle. They are made a few at a time, which spares
// the allocator; each is used once. owner.mu is held.
func (e *entry) handle(share driver.Share) *Lock {
	if len(e.spare) == 0 {
		e.spare = make([]Lock, 32)
	}
	l := &e.spare[0]
	e.spare = e.spare[1:]
	l.h = e.held
	l.writes = share.Mode == driver.Write
	return l
}

// count counts a member or a handle that writes in, or out by -1. owner.mu is held.
func (e *entry) count(share driver.Share, n int) {
	if share.Mode == driver.Write {
		e.writers += n
	}
}

// accepts refuses a re-entry that asks for another hold than the one there is. A writer may enter as a reader. owner.mu
// is held.
func (e *entry) accepts(cfg *lockConfig, share driver.Share) error {
	if cfg.given != 0 {
		if err := e.cfg.accepts(cfg); err != nil {
			return err
		}
	}
	switch {
	case share == e.share || share.Mode == driver.Read:
		return nil
	case share.Mode == driver.Write:
		return fmt.Errorf("%w: a reader that asks to write: give up the read first, for two readers that did so would wait for each other", ErrInvalid)
	}
	return fmt.Errorf("%w: re-entry for %d of %d permits into a hold of %d of %d: want the same", ErrInvalid, share.Weight, share.Of, e.share.Weight, e.share.Of)
}

// accepts compares the options of a hold with those of a re-entry.
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

// leave counts the handle l less, and reports whether it was the last, or the last of a writer who still reads. Only the
// last looks at the clocks, when it releases the hold: until then the scheduler's word will do.
func (e *entry) leave(l *Lock) (last, shrinks bool, err error) {
	o := e.owner
	o.mu.Lock()
	defer o.mu.Unlock()
	e.depth--
	if l.writes {
		e.writers--
	}
	if e.depth > 0 {
		return false, e.shrinks(), e.held.t.Ended()
	}
	if o.recent == e {
		o.recent = nil
	}
	if o.entries[e.key] == e {
		delete(o.entries, e.key)
	}
	return true, false, nil
}

// shrinks makes e a reader's if it is a writer's and no writer is left, and reports whether that is so. owner.mu is held.
func (e *entry) shrinks() bool {
	if e.share.Mode != driver.Write || e.writers > 0 {
		return false
	}
	e.share.Mode = driver.Read
	return true
}

// lockOwned takes a lock for an owner. Only its first entry gets here, and goroutines
// that enter at the same time join it.
func (in engineOf) lockOwned(ctx context.Context, o *owner, spec hold.Spec, cfg *lockConfig, try bool, w *lockWatch) (*Lock, error) {
	o.mu.Lock()
	e := o.entries[entryKey{in.c, in.space, spec.Name}]
	switch {
	case e == nil:
		e = o.newEntry(in, spec, cfg)
		o.mu.Unlock()
		return e.drive(ctx, try, spec.Share, w)
	case e.held != nil: // it was granted since the caller looked
		l, err := e.enter(cfg, spec.Share)
		if l == nil && err == nil {
			return in.lockOwned(ctx, o, spec, cfg, try, w)
		}
		return l, err
	}
	if err := e.accepts(cfg, spec.Share); err != nil {
		o.mu.Unlock()
		return nil, err
	}
	e.members++
	e.count(spec.Share, 1)
	o.mu.Unlock()
	var refused chan struct{} // a try does not wait with the others
	if try {
		refused = e.refused
	} else {
		w.Waits("")
	}
	select {
	case <-refused:
		return e.depart(spec.Share, ErrLocked, false)
	case <-e.settled:
		return e.join(spec.Share), nil
	case <-e.baton:
		return e.drive(ctx, try, spec.Share, w)
	case <-ctx.Done():
		return e.depart(spec.Share, errs.Chain(ErrLocked, errs.ContextError(ctx)), false)
	}
}

// newEntry begins an attempt of o. owner.mu is held.
func (o *owner) newEntry(in engineOf, spec hold.Spec, cfg *lockConfig) *entry {
	e := &entry{
		owner: o, key: entryKey{in.c, in.space, spec.Name}, cfg: *cfg, share: spec.Share, on: &acquisition{}, members: 1,
		baton: make(chan struct{}, 1), refused: make(chan struct{}), settled: make(chan struct{}),
	}
	e.count(spec.Share, 1)
	spec.Refused = e.noteRefused
	e.on.attempt.Begin(in.locks, spec)
	if o.entries == nil {
		o.entries = make(map[entryKey]*entry)
	}
	o.entries[e.key] = e
	return e
}

// drive runs the attempt of an entry on behalf of all its members.
func (e *entry) drive(ctx context.Context, try bool, share driver.Share, w *lockWatch) (*Lock, error) {
	returned := false
	defer errs.IfPanics(&returned, func() { _, _ = e.depart(share, ErrUnknownOutcome, true) })
	t, err := e.on.attempt.Run(ctx, try, w.trace())
	returned = true
	if err != nil {
		return e.depart(share, err, true)
	}
	l, shrinks := e.settle(t, share)
	if shrinks { // the writers that asked with the others have left
		_ = t.Shrink(ctx, driver.Share{Mode: driver.Read}) // what is not confirmed is asked for by the next renewal
	}
	return l, nil
}

// settle makes t the hold of all members. It gives the first handle, and reports whether a writer's hold has no writer.
func (e *entry) settle(t *hold.Tenure, share driver.Share) (l *Lock, shrinks bool) {
	e.owner.mu.Lock()
	defer e.owner.mu.Unlock()
	l = e.on.handle(e.key.c, t, e)
	e.on, e.held, e.depth = nil, l.h, e.members
	l.writes = share.Mode == driver.Write
	close(e.settled)
	return l, e.shrinks()
}

// join is a member's part in a settled attempt: its own handle.
func (e *entry) join(share driver.Share) *Lock {
	e.owner.mu.Lock()
	defer e.owner.mu.Unlock()
	return e.handle(share)
}

// depart takes a member out of an attempt that failed it. The last one ends
// the attempt; when the one that drove it leaves, another goes on.
func (e *entry) depart(share driver.Share, err error, drove bool) (*Lock, error) {
	o := e.owner
	o.mu.Lock()
	if e.held != nil { // granted at the same moment
		o.mu.Unlock()
		return e.join(share), nil
	}
	e.members--
	e.count(share, -1)
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
