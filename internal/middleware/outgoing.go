package middleware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord"
)

// Outgoing admits calls of a service that limits its clients: by a limit, and by the pauses
// that the service has asked for.
type Outgoing struct {
	// Op names the call in errors.
	Op       string
	Limiter  coord.Limiter
	Limit    coord.Limit
	FailFast bool
	// Shared tells other machines of pauses; nil does not.
	Shared PauseStore
	Pauses *Pauses
}

// Admit takes a permit, and waits for it and for the end of a pause. A permit that was
// taken before a pause must not be used after it, or more than the limit could be
// sent at once then: it counts as spent, and another is taken.
func (o *Outgoing) Admit(ctx context.Context, key string) error {
	o.Pauses.look(ctx, o.Shared, key)
	for {
		if pause := o.Pauses.Rest(key); pause > 0 {
			if err := o.sit(ctx, key, pause); err != nil {
				return err
			}
			continue
		}
		if err := o.take(ctx, key); err != nil {
			return err
		}
		if o.Pauses.Rest(key) == 0 {
			return nil
		}
	}
}

// Learn begins a pause, here and, where Shared is set, on other machines.
func (o *Outgoing) Learn(ctx context.Context, key string, pause time.Duration) {
	if pause <= 0 {
		return
	}
	pause = min(pause, MaxPause)
	o.Pauses.Begin(key, pause)
	if o.Shared != nil {
		tell(ctx, o.Shared, key, pause)
	}
}

func (o *Outgoing) take(ctx context.Context, key string) error {
	if !o.FailFast {
		return o.Limiter.Wait(ctx, key, o.Limit)
	}
	r, err := o.Limiter.Allow(ctx, key, o.Limit)
	if err == nil && !r.Allowed {
		err = o.limited(key, r.RetryAfter, coord.ErrLimited)
	}
	return err
}

// sit waits for the end of a pause.
func (o *Outgoing) sit(ctx context.Context, key string, pause time.Duration) error {
	if o.FailFast {
		return o.limited(key, pause, coord.ErrLimited)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < pause {
		return o.limited(key, pause, fmt.Errorf("%w: %w", coord.ErrLimited, context.DeadlineExceeded))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		err := ctx.Err()
		if cause := context.Cause(ctx); !errors.Is(cause, err) {
			err = fmt.Errorf("%w: %w", err, cause)
		}
		return o.limited(key, 0, fmt.Errorf("%w: %w", coord.ErrLimited, err))
	}
}

func (o *Outgoing) limited(key string, after time.Duration, err error) error {
	return &coord.Error{Op: o.Op, Key: key, RetryAfter: after, Err: err}
}
