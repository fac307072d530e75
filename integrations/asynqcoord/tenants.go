// Package asynqcoord lets the workers of asynq serve a few tasks of a tenant at once, within the tenant's
// limit, over all processes. A task that has to wait goes back into the queue, so that it keeps no worker.
package asynqcoord

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/coordgo/coord"
)

// DefaultBusy is when a task comes again while as many tasks of its tenant are served as may.
const DefaultBusy = time.Second

// Tenants is middleware for tasks. All fields but Busy are needed. Do not change it after Wrap. Configure the
// server with [Postpone]: without it, a task that has to wait has failed.
type Tenants struct {
	// Client has the semaphores and the limits of the tenants.
	Client *coord.Client
	// Of is the tenant of a task. It is called concurrently.
	Of func(*asynq.Task) string
	// AtOnce is how many tasks of a tenant are served at once, over all processes: 1 to 2^52.
	AtOnce int
	// Limit of the tasks of each tenant. A task takes one permit.
	Limit coord.Limit
	// Busy is when a task comes again while AtOnce of its tenant are served; 0 is DefaultBusy.
	Busy time.Duration
}

// Wrap serves a task under a permit of its tenant's semaphore, if the limit admits it. Both have the key
// coord.Key("tenant", Of(task)). It panics without Client or Of. The handler is safe for concurrent use.
//
// A task that does not get both is postponed, until the limit has a permit or for Busy, and next is not
// called. If the permit of the semaphore is lost while next runs, the context of the task ends with cause
// coord.ErrLost, and the task fails with an error that matches it. An error of the store fails the task too;
// under coord.FailOpen, only one of the semaphore does.
func (t Tenants) Wrap(next asynq.Handler) asynq.Handler {
	if t.Client == nil || t.Of == nil {
		panic("asynqcoord: Tenants needs a Client and Of")
	}
	if t.Busy <= 0 {
		t.Busy = DefaultBusy
	}
	semaphore := t.Client.Semaphore(t.AtOnce)
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		key := coord.Key("tenant", t.Of(task))
		ran, err := coord.TryDo(ctx, semaphore, key, func(ctx context.Context) error {
			r, err := t.Client.Allow(ctx, key, t.Limit)
			if err != nil {
				return err
			}
			if !r.Allowed {
				return &postponed{r.RetryAfter}
			}
			return next.ProcessTask(ctx, task)
		})
		if !ran && err == nil {
			return &postponed{t.Busy}
		}
		return err
	})
}

// postponed is the error of a task that has to wait. It is no failure.
type postponed struct{ in time.Duration }

func (p *postponed) Error() string { return "postponed for " + p.in.String() }

// Postpone makes a server of c serve postponed tasks again when it is time, without counting that as a retry. What
// c.IsFailure and c.RetryDelayFunc say of other errors stays; nil is asynq's default.
func Postpone(c asynq.Config) asynq.Config {
	isFailure, delay := c.IsFailure, c.RetryDelayFunc
	if isFailure == nil {
		isFailure = func(err error) bool { return err != nil }
	}
	if delay == nil {
		delay = asynq.DefaultRetryDelayFunc
	}
	c.IsFailure = func(err error) bool {
		_, waits := errors.AsType[*postponed](err)
		return !waits && isFailure(err)
	}
	c.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
		if p, waits := errors.AsType[*postponed](err); waits {
			return p.in
		}
		return delay(n, err, task)
	}
	return c
}
