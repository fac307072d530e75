package server

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
)

// hold is what a remote holder holds: the locks that this server took for it, and until when the holder may believe so.
//
// The holder's deadline is its own clock when it sent a request, plus remaining_ms of the answer. That is before until,
// for the request was sent before the answer was made. And until is a margin before the deadline of each lock.
// So nothing ends the hold before its holder knows, unless the holder asks for it.
type hold struct {
	s       *Server
	c       *caller
	id      string
	request requestKey
	ttl     time.Duration // the least lease of its locks: a store may have granted less than was asked; or a window
	margin  time.Duration // by which the clocks of holder and server may drift apart within the TTL

	mu     sync.Mutex
	locks  []*coord.Lock // none once they are given back
	until  time.Time     // never moves back
	timer  *time.Timer
	ended  bool
	reason error         // why it ended; nil: the holder released it
	gone   chan struct{} // closed when the locks are given back
	freed  bool          // the store has confirmed that
}

// marginOf is the part of a lease that is left for clocks that drift apart, as coord itself leaves it.
func marginOf(ttl time.Duration) time.Duration { return max(ttl/100, 5*time.Millisecond) }

func newHold(s *Server, c *caller, request requestKey, locks []*coord.Lock, ttl time.Duration) *hold {
	for _, l := range locks {
		ttl = min(ttl, l.TTL())
	}
	h := &hold{s: s, c: c, id: s.newID(), request: request, locks: locks, ttl: ttl, margin: marginOf(ttl)}
	h.gone = make(chan struct{})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = earlier(time.Now().Add(ttl), h.bound())
	h.timer = time.AfterFunc(time.Until(h.until)+h.margin, h.expire)
	return h
}

// bound is until when the locks are certain, as far as their holder may believe it.
func (h *hold) bound() time.Time {
	first := h.locks[0].Deadline()
	for _, l := range h.locks[1:] {
		first = earlier(first, l.Deadline())
	}
	return first.Add(-h.margin)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// promise moves the end of the hold on, and says what its holder may believe.
func (h *hold) promise() (*holdAnswer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.ended && h.reason != nil:
		return nil, h.reason
	case h.ended:
		return nil, errReleased
	}
	if h.c.gone() { // of a stream; others have to show a token each time
		return nil, errToken
	}
	if err := h.lost(); err != nil {
		return nil, err // what else is held stays so until the holder must know
	}
	now, bound, draining := time.Now(), h.bound(), h.s.draining.Load()
	if until := earlier(now.Add(h.ttl), bound); !draining && until.After(h.until) {
		h.until = until
	}
	return h.answer(max(earlier(h.until, bound).Sub(now), 0), draining), nil
}

// lost is why one of the locks is held no more.
func (h *hold) lost() error {
	for _, l := range h.locks {
		if err := l.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (h *hold) answer(left time.Duration, draining bool) *holdAnswer {
	a := &holdAnswer{ID: h.id, Remaining: left.Milliseconds(), TTL: h.ttl.Milliseconds(), Draining: draining}
	for _, l := range h.locks {
		a.Locks = append(a.Locks, lockAnswer{Key: l.Key(), Token: l.Token(), Slot: l.Slot()})
	}
	if len(h.locks) == 1 {
		a.Token = h.locks[0].Token()
	}
	return a
}

// expire ends the hold when its holder must know that it has ended.
func (h *hold) expire() {
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		return
	}
	if left := time.Until(h.until) + h.margin; left > 0 { // it was renewed
		h.timer.Reset(left)
		h.mu.Unlock()
		return
	}
	over := errExpired
	if h.s.draining.Load() {
		over = errDrained
	}
	h.ended, h.reason = true, cmp.Or[error](h.lost(), over)
	h.mu.Unlock()
	h.giveBack()
}

// release ends the hold because its holder says so. It is nil each time if the holder held it to the end. When ctx
// ends, the keys become free in the background.
func (h *hold) release(ctx context.Context) (freed bool, err error) {
	h.mu.Lock()
	first := !h.ended
	if first {
		h.ended, h.reason = true, h.lost()
	}
	h.mu.Unlock()
	if first {
		h.timer.Stop()
		go h.giveBack()
	}
	select {
	case <-h.gone:
	case <-ctx.Done():
		return false, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.freed, h.reason
}

// giveBack unlocks. It is called once.
func (h *hold) giveBack() {
	freed, lost := h.s.unlock(h.locks)
	h.mu.Lock()
	if lost && h.reason == nil {
		h.reason = errLost
	}
	h.freed, h.locks = freed, nil
	h.mu.Unlock()
	h.s.forget(h)
	close(h.gone)
}

// unlock gives locks back at the same time, so that it takes no longer than one. It tells whether the store has
// confirmed all, and whether any was lost before.
func (s *Server) unlock(locks []*coord.Lock) (freed, lost bool) {
	var all sync.WaitGroup
	var unconfirmed, gone atomic.Bool
	for _, l := range locks {
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					_ = s.panicked(p)
					unconfirmed.Store(true)
				}
			}()
			switch err := l.Unlock(context.Background()); {
			case errors.Is(err, coord.ErrNotHeld): // lost, that is: nobody else unlocks it
				gone.Store(true)
			case err != nil:
				unconfirmed.Store(true) // coord frees it in the background, or its lease does
			}
		})
	}
	all.Wait()
	return !unconfirmed.Load(), gone.Load()
}
