package redis

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// waiter is one call of Lock, or of NotifyChanges, which is in no queue.
type waiter struct {
	n        uint64 // its number among those of the client
	lock     string
	id       string
	waiters  *waiters
	notified chan struct{} // signalled when next has changed
	// Guarded by waiters.mu.
	queued bool          // the server has confirmed the place
	sub    *subscription // for its messages
	next   notification
}

// notification is what a waiter was told since it last looked.
type notification struct {
	ask   bool          // it was offered the lock, or a message may have been lost
	first time.Duration // it comes next, after a lease with so much time left; 0 if that is not known
}

// await returns when it is time to ask again: after a notification, or when the lease in the way, which has left, is
// over. It returns an error when the wait is over. Messages on two connections can overtake each other. So they can
// only shorten the wait.
func (w *waiter) await(ctx context.Context, timer *time.Timer, left time.Duration, closing <-chan struct{}) (notification, error) {
	until := time.Now().Add(left)
	timer.Reset(left)
	for {
		select {
		case <-w.notified:
			n := w.take()
			if n.ask {
				return n, nil
			}
			if end := time.Now().Add(n.first); n.first > 0 && end.Before(until) {
				until = end
				timer.Reset(n.first)
			}
		case <-timer.C:
			return notification{}, nil
		case <-ctx.Done():
			return notification{}, ctx.Err()
		case <-closing:
			return notification{}, errClosing // its place stays in the queue for a while
		}
	}
}

// take returns the notification, and clears it.
func (w *waiter) take() notification {
	w.waiters.mu.Lock()
	defer w.waiters.mu.Unlock()
	n := w.next
	w.next = notification{}
	return n
}

// notify makes the waiter ask again, or tells it when the lease in its way ends. waiters.mu is held.
func (w *waiter) notify(ask bool, first time.Duration) {
	n := &w.next
	n.ask = n.ask || ask
	if first > 0 && (n.first == 0 || first < n.first) {
		n.first = first
	}
	signal(w.notified)
}

// record is what the server stores of a waiter: for how long the lock is offered to it, its number, and its channel.
func (w *waiter) record(e *subscription) string {
	return strconv.FormatInt(w.waiters.offerTime().Milliseconds(), 10) + " " + strconv.FormatUint(w.n, 10) + " " + e.channel
}

// placed records that w is in the queue. If its subscription was confirmed again since the request was sent, messages
// may have been lost, and the waiter asks again.
func (ws *waiters) placed(w *waiter, sent subEpoch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.queued, w.sub = true, sent.sub
	if e := w.sub; e.ups != sent.ups || e.gone {
		w.notify(true, 0)
	}
}

// message delivers what a script has published, see lua/offer.lua.
func (s *subscription) message(payload string) {
	ws := s.waiters
	number, rest, more := strings.Cut(payload, " ")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return
	}
	var ms int64
	if more {
		ms, _ = strconv.ParseInt(rest, 10, 64) // else it is a message of another kind
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.byNumber[n]
	switch {
	case w == nil: // it has left
	case ms > 0:
		w.notify(false, leaseEnds(ms))
	default:
		w.notify(true, 0)
	}
}
