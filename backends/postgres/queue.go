package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
)

const (
	// maxPlace is how long the server keeps the place of a waiter that does not look.
	maxPlace = 2 * time.Second
	// fastest and slowest bound how long a waiter takes each hand-over for: its first look is early, and the next one is later if
	// nothing has moved.
	fastest = time.Millisecond
	slowest = 5 * time.Millisecond
	// rarest is the longest time between two looks of the first.
	rarest = 250 * time.Millisecond
)

// placeLasts is how long a place lasts that is asked for with a TTL: a dead waiter delays others no longer than a dead holder.
func placeLasts(ttl time.Duration) time.Duration { return ceil(min(ttl, maxPlace)) }

// Lock implements driver.Queuer. The server keeps the queue. Nobody is told that a key is free: waiters look, the first most
// often, and such a look reads. It writes, in the waiter's own row, when a third of the life of its place is over.
func (b *backend) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	if err := checkRequest(r); err != nil {
		return driver.Grant{}, err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var p pace
	sql := b.sql.queue
	for placed := false; ; placed = true {
		if ctx.Err() != nil {
			return driver.Grant{}, unplaced(ctx, driver.NotSent(ctx.Err()), placed)
		}
		sent := time.Now()
		a, err := b.ask(ctx, sql, key, r, placeLasts(r.TTL))
		if !errors.Is(err, driver.ErrLocked) {
			a.Since = sent
			return a.Grant, unplaced(ctx, err, placed)
		}
		if !placed {
			waits()
		}
		if sql = b.sql.resume; a.ahead == nil { // it has not looked for too long
			sql = b.sql.queue
			continue
		}
		timer.Reset(min(p.pause(*a.ahead, a.left), placeLasts(r.TTL)/3))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return driver.Grant{}, ctx.Err()
		case <-b.calls.Life().Done():
			return driver.Grant{}, errClosing
		}
	}
}

// pace is how often a waiter looks. The nearer it is to the front the more often, so that it looks a few times, however many
// were ahead. The first looks after half of the time since it is that, while this is short; in the end everybody looks after
// an eighth of the time since the queue has moved, the first four times a second at least.
type pace struct {
	each  time.Duration // what a hand-over takes, as it seems
	ahead int64
	seen  time.Time // when it looked
	moved time.Time // when the queue was seen to move
}

// pause is for how long a waiter does not look that so many are ahead of, where so much of a lease is left.
func (p *pace) pause(ahead int64, left time.Duration) time.Duration {
	now := time.Now()
	if p.seen.IsZero() {
		p.each, p.ahead, p.moved = fastest, ahead, now
	} else if waited, took := now.Sub(p.seen), time.Duration(p.ahead-ahead)*p.each; took >= waited {
		p.each = max(p.each/2, fastest)
	} else if took < waited/2 {
		p.each = min(p.each*2, slowest)
	}
	if ahead != p.ahead {
		p.ahead, p.moved = ahead, now
	}
	p.seen = now
	still := now.Sub(p.moved)
	if ahead > 0 {
		return max(time.Duration(ahead)*p.each, still/8)
	}
	d := max(fastest, min(still/2, slowest), min(still/8, rarest))
	if left > 0 {
		d = min(d, left+time.Millisecond)
	}
	return d
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
