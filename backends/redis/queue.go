package redis

import (
	"context"
	"time"

	"github.com/coordgo/coord/driver"
)

var _ driver.Queuer = (*backend)(nil)

// Lock implements driver.Queuer. The line is at the server, in the order in which
// waiters came; see lua/queue.lua. Who gives the lock back grants it to the first in line in
// the same step, for a second at most, and tells that client, which confirms it by
// asking again. A waiter asks also when it is told to, and the first in line when the
// lease in its way has run out.
func (b *backend) Lock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := checkRequest(r); err != nil {
		return driver.Grant{}, err
	}
	lock, fence := lockKeys(key)
	w, err := b.line.join(lock, r)
	if err != nil {
		return driver.Grant{}, err
	}
	defer b.line.leave(w)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	ttl, where := b.ttl(r.TTL), b.line.place(w)
	for {
		sent, heard := time.Now(), b.line.heard()
		reply, short, err := b.runGrant(ctx, waitScript, lock, lock, fence, r.ID, ttl.lease, where)
		switch {
		case err != nil:
			return driver.Grant{}, err
		case short != nil:
			return driver.Grant{}, b.giveBack(ctx, lock, r.ID, short)
		case reply[0] != 0:
			g, err := granted(reply)
			g.Since = sent
			return g, err
		}
		left, refusal := lockedFor(lock, reply)
		if left == 0 {
			return driver.Grant{}, refusal
		}
		if reply[2] > 0 {
			left = never
		}
		timer.Reset(left)
		b.line.placed(w, heard)
		if err := w.await(ctx, timer, b.closing); err != nil {
			return driver.Grant{}, err
		}
	}
}

// never is a time that nobody waits for.
const never = 1000 * time.Hour

// waiter is one call of Lock.
type waiter struct {
	n    uint64 // its number among those of the client
	lock string
	id   string
	fair bool
	line *line
	news chan struct{} // signalled when ask or first was set
	// Guarded by line.mu.
	inLine bool          // the server has said that it is
	ask    bool          // it was granted, or does not know
	first  time.Duration // it is the first, behind a lease with that much left; 0 if it was not told
}

// await returns when it is time to ask again, or with what has ended the wait.
func (w *waiter) await(ctx context.Context, timer *time.Timer, closing <-chan struct{}) error {
	for {
		select {
		case <-w.news:
			ask, first := w.take()
			if ask {
				return nil
			}
			if first > 0 {
				timer.Reset(first)
			}
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-closing:
			return driver.ErrClosed
		}
	}
}

// take is the news since it was last taken.
func (w *waiter) take() (ask bool, first time.Duration) {
	w.line.mu.Lock()
	defer w.line.mu.Unlock()
	ask, first = w.ask, w.first
	w.ask, w.first = false, 0
	return ask, first
}

// tell makes the waiter ask, or know that it is the first. line.mu is held.
func (w *waiter) tell(ask bool, first time.Duration) {
	w.ask = w.ask || ask
	if first > 0 {
		w.first = first
	}
	signal(w.news)
}
