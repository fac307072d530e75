package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
)

// queue is the line of those who wait for a key: a doubly linked list, so that
// a waiter leaves from anywhere in constant time, and an index by id. The
// shard's mutex guards it.
type queue struct {
	first, last *waiter
	byID        map[string]*waiter
	timer       *time.Timer // runs while there are waiters, at the end of the lease in the way at the latest
}

type waiter struct {
	id         string
	ttl        time.Duration
	next, prev *waiter
	done       chan struct{} // closed once grant or err is set
	grant      driver.Grant
	err        error
}

func (q *queue) empty() bool { return q.first == nil }
func (q *queue) len() int    { return len(q.byID) }

func (q *queue) push(w *waiter) {
	if q.byID == nil {
		q.byID = make(map[string]*waiter)
	}
	q.byID[w.id] = w
	w.prev = q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
}

func (q *queue) remove(w *waiter) {
	delete(q.byID, w.id)
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev = nil, nil
	if q.empty() && q.timer != nil {
		q.timer.Stop()
	}
}

// withdraw takes id out of the queue and ends its wait with ErrNotHeld.
func (q *queue) withdraw(id string) error {
	w := q.byID[id]
	if w == nil {
		return driver.ErrNotHeld
	}
	q.remove(w)
	w.err = fmt.Errorf("%w: the wait was withdrawn", driver.ErrNotHeld)
	close(w.done)
	return nil
}

// advance hands the key to the longest waiter once no lease is in the way.
func (s *Store) advance(sl *slot, now instant) {
	w := sl.queue.first
	if w == nil || now < sl.until {
		return
	}
	since := time.Now() // before the lease starts, in every order of the two clocks
	now = s.clock.now()
	sl.queue.remove(w)
	w.grant = s.take(sl, driver.Request{ID: w.id, TTL: w.ttl}, now)
	w.grant.Since = since
	close(w.done)
	if !sl.queue.empty() {
		sl.queue.timer.Reset(sl.until - now)
	}
}

// arm makes sure that the queue, which is not empty, moves when the lease in the
// way ends with no further call. The lease may have been renewed by then: the
// timer sleeps on.
func (s *Store) arm(sh *shard[slot], sl *slot, now instant) {
	q := &sl.queue
	if q.timer != nil {
		q.timer.Reset(sl.until - now)
		return
	}
	q.timer = time.AfterFunc(sl.until-now, func() {
		sh.Lock()
		defer sh.Unlock()
		now := s.clock.now()
		s.advance(sl, now)
		if !q.empty() && now < sl.until {
			q.timer.Reset(sl.until - now)
		}
	})
}

// Lock waits in the queue until r.ID is granted.
func (b *backend) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	if err := b.check(ctx, key, r); err != nil {
		return driver.Grant{}, err
	}
	w, grant, err := b.enqueue(key, r)
	if w == nil {
		return grant, err
	}
	waits()
	select {
	case <-w.done:
		return w.grant, w.err
	case <-ctx.Done():
		b.store.leave(key, w)
		return driver.Grant{}, driver.NotSent(ctx.Err())
	case <-b.done:
		b.store.leave(key, w)
		return driver.Grant{}, driver.ErrClosed
	}
}

// enqueue takes the key at once, and the waiter is nil, or joins the queue.
func (b *backend) enqueue(key string, r driver.Request) (*waiter, driver.Grant, error) {
	since := time.Now()
	s := b.store
	sh, sl, now := s.lockKey(key)
	defer sh.Unlock()
	grant, err := b.attempt(sh, sl, key, r, now)
	if err == nil {
		grant.Since = since
		return nil, grant, nil
	}
	if sl.queue.byID[r.ID] != nil {
		return nil, driver.Grant{}, fmt.Errorf("%w: id %s waits for this key already: want one wait per id", driver.ErrInvalid, r.ID)
	}
	w := &waiter{id: r.ID, ttl: r.TTL, done: make(chan struct{})}
	sl.queue.push(w)
	if sl.queue.first == w {
		s.arm(sh, sl, now)
	}
	return w, driver.Grant{}, nil
}

// leave undoes the wait of w, which gave up. If the grant came at the same
// moment, it is passed on, as if it had not come.
func (s *Store) leave(key string, w *waiter) {
	sh, sl, now := s.lockKey(key)
	defer sh.Unlock()
	if sl == nil {
		return
	}
	if sl.queue.byID[w.id] == w {
		sl.queue.remove(w)
		return
	}
	if w.grant.Token != 0 && sl.heldBy(w.id, now) && sl.token == w.grant.Token {
		s.end(sh, sl, key, now, now)
	}
}
