package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/hold"
	"github.com/coordgo/coord/internal/trace"
)

// Re-entry is kept here, once, above every store. It goes by descent: a Lock enters the innermost entry of its key under
// which its context was made, without a request, and shares its hold and fencing token. Entries are a tree: a Lock is
// one, and knows its parent. A parent runs beside its descendants, for they are its own code; its children take turns, as
// strangers do, so of two entries inside one descends from the other. The last Unlock frees the key.

// maxDepth is how many handles a hold has before that is taken for a mistake.
const maxDepth = 1000

// held is what all handles on one hold share.
type held struct {
	c     *Client
	t     *hold.Tenure
	cfg   *lockConfig
	share driver.Share // as it was asked for

	mu      sync.Mutex // guards what follows, and entries
	handles int        // not yet unlocked
	writers int        // of them
	queues  map[*Lock][]*turn
	warned  bool // of a wait that is long
}

// turn is a wait for a place as child of an entry.
type turn struct {
	share driver.Share
	lock  *Lock // what it was given, or
	err   error // why not
	done  chan struct{}
}

var (
	// errLeft: what was to be entered was unlocked meanwhile, so look again.
	errLeft    = errors.New("the entry was unlocked")
	errEntered = errs.Kind("another goroutine whose ctx comes from the same lock has entered it; to enter that one's lock, pass on the ctx of its Do or Lock.Context", driver.ErrLocked)
	errUpgrade = fmt.Errorf("%w: a reader that asks to write: give up the read first, for two readers that did so would wait for each other", ErrInvalid)
)

// live is the innermost entry, from l outwards, that was not unlocked.
func (l *Lock) live() *Lock {
	for l != nil && l.released.Load() {
		l = l.parent
	}
	return l
}

func (l *Lock) entryKey() entryKey { return entryKey{l.h.c, l.space(), l.Key()} }

// reenter gives a handle on what ctx has of key already, nil if it has nothing. o is whose the handle is, or will be.
func (c *Client) reenter(ctx context.Context, key entryKey, cfg *lockConfig, share driver.Share, try bool, w *trace.Lock) (l *Lock, o *owner, err error) {
	for {
		var n *Lock
		if n, o = linkOf(ctx).entry(key); n == nil {
			return nil, o, nil
		}
		switch l, err = n.enter(ctx, cfg, share, try, w); {
		case err == errLeft:
			continue
		case err == nil && o != nil:
			o.made(key, l)
		}
		return l, o, err
	}
}

// enter gives a child of n.
func (n *Lock) enter(ctx context.Context, cfg *lockConfig, share driver.Share, try bool, w *trace.Lock) (*Lock, error) {
	if !n.h.t.Holds() { // without a mutex: observers are told of the loss, and may lock
		if err := n.h.t.Check(); n.released.Load() {
			return nil, errLeft
		} else if err != nil {
			return nil, err
		}
	}
	l, s, err := n.admitOrQueue(cfg, share, try)
	if s == nil {
		return l, err
	}
	return n.await(ctx, s, w)
}

// admitOrQueue gives a child of n, or else a turn to wait for.
func (n *Lock) admitOrQueue(cfg *lockConfig, share driver.Share, try bool) (*Lock, *turn, error) {
	h := n.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if n.left {
		return nil, nil, errLeft
	}
	if err := h.accepts(cfg, share); err != nil {
		return nil, nil, err
	}
	waiting := len(h.queues[n])
	switch {
	case h.handles >= maxDepth:
		return nil, nil, fmt.Errorf("%w: re-entry deeper than %d", ErrInvalid, maxDepth)
	case waiting == 0 && n.admits(share):
		return n.admit(share), nil, nil
	case try, cfg.waiting > 0 && waiting >= cfg.waiting:
		return nil, nil, errEntered
	}
	if h.queues == nil {
		h.queues = make(map[*Lock][]*turn)
	}
	s := &turn{share: share, done: make(chan struct{})}
	h.queues[n] = append(h.queues[n], s)
	return nil, s, nil
}

// await waits for a turn as n's child.
func (n *Lock) await(ctx context.Context, s *turn, w *trace.Lock) (*Lock, error) {
	decided := false
	defer func() { // an observer may end the goroutine
		if !decided && !n.withdraw(s) && s.lock != nil {
			_ = s.lock.Unlock(ctx)
		}
	}()
	w.Waits("")
	err := n.awaitTurn(ctx, s)
	decided = true
	if err != nil && n.withdraw(s) {
		return nil, err
	}
	return s.lock, s.err // perhaps in the same moment
}

// awaitTurn gives why s is waited for no longer, nil if it is decided.
func (n *Lock) awaitTurn(ctx context.Context, s *turn) error {
	long := time.NewTimer(hold.LongWait)
	defer long.Stop()
	for {
		select {
		case <-s.done:
			return nil
		case <-long.C:
			n.warnLongWait()
		case <-ctx.Done():
			return errs.Chain(errEntered, errs.ContextError(ctx))
		case <-n.h.t.Done():
			return n.h.t.Check()
		}
	}
}

// withdraw takes s out of the queue. It reports false if it was decided before.
func (n *Lock) withdraw(s *turn) bool {
	h := n.h
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, q := range h.queues[n] {
		if q == s {
			h.queues[n] = append(h.queues[n][:i:i], h.queues[n][i+1:]...)
			n.promote()
			return true
		}
	}
	return false
}

// warnLongWait logs, once for each hold, that a goroutine waits long for another one under the same hold.
func (n *Lock) warnLongWait() {
	h := n.h
	h.mu.Lock()
	isNew := !h.warned
	h.warned = true
	h.mu.Unlock()
	if isNew {
		h.c.log.Warn("coord: waiting for a goroutine that has entered a lock under which both were started; if that goroutine waits too, it has not passed on the ctx of its Do or Lock.Context",
			"key", n.Key(), "waited", hold.LongWait)
	}
}

// admits reports whether n can have one child more: readers of what nobody writes share, all others come one after
// another. held.mu is held.
func (n *Lock) admits(share driver.Share) bool {
	return n.children == 0 || share.Mode == driver.Read && n.h.writers == 0
}

// admit makes a child. held.mu is held.
func (n *Lock) admit(share driver.Share) *Lock {
	n.children++
	l := &Lock{h: n.h, parent: n, depth: n.depth + 1, writes: share.Mode == driver.Write}
	n.h.count(l, 1)
	return l
}

// promote decides the turns under n whose time has come. held.mu is held.
func (n *Lock) promote() {
	queue := n.h.queues[n]
	for len(queue) > 0 {
		s := queue[0]
		switch {
		case s.share.Mode == driver.Write && n.h.writers == 0: // the hold has become a reader's
			s.err = errUpgrade
		case n.admits(s.share):
			s.lock = n.admit(s.share)
		default:
			n.h.queues[n] = queue
			return
		}
		close(s.done)
		queue = queue[1:]
	}
	delete(n.h.queues, n)
}

// count counts a handle in, or out by -1. held.mu is held.
func (h *held) count(l *Lock, by int) {
	h.handles += by
	if l.writes {
		h.writers += by
	}
}

// handlesNow is how many handles there are.
func (h *held) handlesNow() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.handles
}

// accepts refuses a re-entry that asks for another hold than the one there is. A writer may enter as a reader. held.mu
// is held.
func (h *held) accepts(cfg *lockConfig, share driver.Share) error {
	if cfg.given != 0 {
		if err := h.cfg.accepts(cfg); err != nil {
			return err
		}
	}
	own := h.share
	switch {
	case share.Mode == driver.Write && h.writers == 0:
		return errUpgrade
	case share.Mode == driver.Permits && share != own:
		return fmt.Errorf("%w: re-entry for %d of %d permits into a hold of %d of %d: want the same", ErrInvalid, share.Weight, share.Of, own.Weight, own.Of)
	}
	return nil
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

// leave takes l out, and reports whether it was the last of its hold, or the last of a writer who still reads. Only the
// last looks at the clocks, when it releases the hold: until then the scheduler's word will do.
func (l *Lock) leave() (last, shrinks bool, err error) {
	h := l.h
	if l.owner != nil {
		l.owner.forget(l.entryKey(), l)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	l.out()
	for n := l; n.left && n.children == 0 && n.parent != nil; n = n.parent { // who has left is gone with the last child
		n.parent.children--
		n.parent.promote()
	}
	if h.handles == 0 {
		return true, false, nil
	}
	if shrinks = l.writes && h.writers == 0; shrinks {
		for n := range h.queues { // the readers share from now on
			n.promote()
		}
	}
	return false, shrinks, h.t.Ended()
}

// leaveAlone is leave of a hold's only handle. It reports false if there are others.
func (l *Lock) leaveAlone() bool {
	h := l.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.handles != 1 || l.left {
		return false
	}
	l.released.Store(true)
	l.out()
	return true
}

// out is l's end. Who waits for a turn under it looks again. held.mu is held.
func (l *Lock) out() {
	h := l.h
	h.count(l, -1)
	l.left = true
	for _, s := range h.queues[l] {
		s.err = errLeft
		close(s.done)
	}
	delete(h.queues, l)
}
