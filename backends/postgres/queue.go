package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
)

const (
	// maxPlace is how long the server keeps the place of a waiter that does not ask again.
	maxPlace = 2 * time.Second
	// pollEach is how often a waiter asks while no notification can reach it.
	pollEach = 50 * time.Millisecond
)

// placeLasts is how long a place lasts that is asked for with a TTL: a dead waiter delays others no longer than a dead holder.
func placeLasts(ttl time.Duration) time.Duration { return min(ttl, maxPlace) }

var _ driver.Queuer = (*backend)(nil)

// Lock implements driver.Queuer. The server keeps the queue. Whoever frees the key, or leaves the queue, notifies
// the first in it, who asks again; so does a waiter whose lease in the way has ended.
func (b *backend) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	if err := checkRequest(r); err != nil {
		return driver.Grant{}, err
	}
	w := b.listener.join(key, r.ID)
	defer b.listener.leave(w)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for placed := false; ; placed = true {
		if ctx.Err() != nil {
			return driver.Grant{}, unplaced(ctx, driver.NotSent(ctx.Err()), placed)
		}
		sent := time.Now()
		g, err := b.ask(ctx, key, r, true)
		var locked *driver.LockedError
		if !errors.Is(err, driver.ErrLocked) {
			g.Since = sent
			return g, unplaced(ctx, err, placed)
		}
		if !placed {
			waits()
		}
		pause := placeLasts(r.TTL) / 3 // a sign of life
		if !b.listener.isUp() {
			pause = min(pause, pollEach)
		}
		if errors.As(err, &locked) && locked.Remaining > 0 {
			pause = min(pause, locked.Remaining+time.Millisecond)
		}
		timer.Reset(pause)
		select {
		case <-w.wake:
		case <-timer.C:
		case <-ctx.Done():
			return driver.Grant{}, ctx.Err()
		case <-b.life.Done():
			return driver.Grant{}, errClosing
		}
	}
}

// unplaced turns the error of one request into that of the whole wait. That this request was not sent does not mean that
// earlier ones left nothing at the server.
func unplaced(ctx context.Context, err error, placed bool) error {
	switch {
	case err == nil || !placed || !errors.Is(err, driver.ErrNotSent) && !errors.Is(err, driver.ErrClosed):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	default: // err is definite, but only about one request: it is not wrapped
		return fmt.Errorf("postgres: a place in the queue may be left: %v", err)
	}
}

// keyHash names a key in notifications, as sql/unlock.sql does.
func keyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
