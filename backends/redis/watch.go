package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/coordgo/coord/driver"
)

// watch is a call of NotifyChanges: a waiter that is in no queue. The scripts tell it of each change.
type watch struct {
	b       *backend
	hash    string
	waiter  *waiter
	changed func()
	channel string // of the last registration
	heard   bool   // it was in force once
}

// NotifyChanges implements driver.ChangeNotifier. It registers in the hash, and again as often as heartbeats are sent, so
// that the entry of a client that has died goes soon. While a connection is made again, changed is called often: the
// caller then polls. A user who may not publish or subscribe gets ErrUnsupported.
func (l sharedLocker) NotifyChanges(ctx context.Context, key string, changed func()) (err error) {
	ws := &l.b.waiters
	if !ws.pushes {
		return fmt.Errorf("%w: the user may not publish on %s*", driver.ErrUnsupported, channelPrefix)
	}
	w := &watch{b: l.b, hash: sharedKey(key), changed: changed}
	if w.waiter, err = ws.join(w.hash, driver.Request{}); err != nil {
		return err
	}
	defer ws.leave(w.waiter)
	defer w.withdraw()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, err := w.register(ctx)
		if err == nil {
			err = w.await(ctx, timer, next)
		}
		if errors.Is(err, errClosing) {
			return driver.ErrClosed
		}
		if err != nil {
			return err
		}
	}
}

// register notes where to send messages, and returns after how long to do so again. It calls changed if changes may have
// been missed, or will be. Before it has listened for the first time it does not: the caller polls by itself then.
func (w *watch) register(ctx context.Context) (next time.Duration, err error) {
	ws := &w.b.waiters
	sub := ws.subscriptionOf(ctx, w.hash)
	sent, known := sub.epoch(), int64(0)
	w.channel = sub.channel
	if w.channel != noChannel {
		known, err = w.note(ctx, true)
	}
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.Is(err, driver.ErrCorrupt), errors.Is(err, driver.ErrClosed), errors.Is(err, errClosing):
		return 0, err
	case known < 0:
		return 0, fmt.Errorf("%w: too many calls of NotifyChanges of one key", driver.ErrUnsupported)
	}
	up, refused := ws.watches(w.waiter, sent)
	switch {
	case refused != nil:
		return 0, fmt.Errorf("%w: the user may not subscribe to %s*: %w", driver.ErrUnsupported, channelPrefix, refused)
	case err != nil || !up:
		if w.heard {
			w.changed()
		}
		return pollEvery, nil
	case known == 0 || !w.heard:
		w.heard = true
		w.changed()
	}
	return ws.every, nil
}

// await passes messages on, for so long or until the subscription is lost.
func (w *watch) await(ctx context.Context, timer *time.Timer, next time.Duration) error {
	for until := time.Now().Add(next); ; {
		n, err := w.waiter.await(ctx, timer, max(time.Until(until), 0), w.b.closing)
		if err != nil || !n.ask {
			return err
		}
		if !w.waiter.hears() {
			return nil
		}
		w.heard = true
		w.changed()
	}
}

// note registers the waiter, or ends that. It returns 1 if it was registered before, -1 if there are too many.
func (w *watch) note(ctx context.Context, stays bool) (int64, error) {
	bound := driver.NewBound(ctx, heartbeatWithin)
	defer bound.Stop()
	life := "0"
	if stays {
		life = "1"
	}
	who := strconv.FormatUint(w.waiter.n, 10) + " " + w.channel
	return w.b.run(bound, w.b.shared.watch.command(bound, w.hash, who, life)).integer()
}

// withdraw ends the registration, in the background: the call has ended, and without it the entry goes later.
func (w *watch) withdraw() {
	ws := &w.b.waiters
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.channel != "" && w.channel != noChannel && !w.b.closed() {
		ws.wg.Go(func() { _, _ = w.note(ws.ctx, false) })
	}
}

// watches records that w, which is in no queue, gets messages by a subscription, as placed does. It returns whether it
// is in force, and why the server has refused it.
func (ws *waiters) watches(w *waiter, sent subEpoch) (up bool, refused error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.watches, w.sub = true, sent.sub
	if w.sub.ups != sent.ups {
		w.notify(true, 0)
	}
	return w.sub.up && !w.sub.gone, w.sub.refused
}

// hears reports whether messages reach w.
func (w *waiter) hears() bool {
	w.waiters.mu.Lock()
	defer w.waiters.mu.Unlock()
	return w.sub.up && !w.sub.gone
}
