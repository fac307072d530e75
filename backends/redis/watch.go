package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/coordgo/coord/driver"
)

// NotifyChanges implements driver.SharedLocker by a waiter that is in no queue: the scripts send it a message for each
// change. It registers in the hash, and again as often as heartbeats are sent, because the entry of a client that has
// died goes soon. It calls changed then too: messages may have been lost. While its connection is made again, it calls
// changed often: the caller then polls.
func (l sharedLocker) NotifyChanges(ctx context.Context, key string, changed func()) error {
	ws, hash := &l.b.waiters, sharedKey(key)
	if !ws.pushes {
		return fmt.Errorf("%w: the user may not publish on %s*", driver.ErrUnsupported, channelPrefix)
	}
	w, err := ws.join(hash, driver.Request{})
	if err != nil {
		return err
	}
	defer ws.leave(w)
	var registered *subscription // the last with which that was tried
	defer func() {
		if registered != nil { // if that fails, the entry goes later
			_ = l.register(ctx, w, registered, false)
		}
	}()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for due := time.Now(); ; {
		if time.Until(due) <= 0 {
			due = time.Now().Add(pollEvery)
			sub := ws.subscriptionOf(ctx, hash)
			if w.listensOn(sub) {
				registered = sub
				if l.register(ctx, w, sub, true) == nil {
					due = time.Now().Add(ws.every)
				}
			}
			if registered != nil {
				changed()
			}
		}
		n, err := w.await(ctx, timer, time.Until(due), l.b.calls.Life().Done())
		switch {
		case errors.Is(err, errClosing):
			return driver.ErrClosed
		case err != nil:
			return err
		case n.ask:
			changed()
		}
	}
}

// register notes in the hash where to send messages for w, or that it wants none any more. As a request for a place in a
// queue, it is not left behind when ctx ends: it could reach the server after the one that ends it.
func (l sharedLocker) register(ctx context.Context, w *waiter, sub *subscription, wants bool) error {
	late, end := outlasting(ctx)
	defer end()
	who := strconv.FormatUint(w.n, 10) + " " + sub.channel
	return l.b.run(late, l.b.shared.watch.command(late, w.lock, who, strconv.FormatBool(wants))).err
}

// listensOn notes that messages for w come on sub, and reports whether they would reach it.
func (w *waiter) listensOn(sub *subscription) bool {
	w.waiters.mu.Lock()
	defer w.waiters.mu.Unlock()
	w.sub = sub
	return sub.up && !sub.gone && sub.channel != noChannel
}
