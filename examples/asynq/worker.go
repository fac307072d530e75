// Package asynq shows workers of a queue that serve a few tasks of a tenant at once, within the tenant's limit, over all
// processes. A task that has to wait goes back into the queue, so that it keeps no worker.
package asynq

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/coordgo/coord"
)

// Tenants is middleware for tasks. All fields are needed.
type Tenants struct {
	Client *coord.Client
	// Of is the tenant of a task.
	Of func(*asynq.Task) string
	// AtOnce is how many tasks of a tenant are served at once.
	AtOnce int
	// Limit of each tenant.
	Limit coord.Limit
	// Busy is when to try again while so many are served.
	Busy time.Duration
}

// postponed is the error of a task that has to wait. It is no failure.
type postponed struct{ in time.Duration }

func (p *postponed) Error() string { return "postponed for " + p.in.String() }

// Wrap serves a task under a permit of its tenant's semaphore, if the limit admits it. The context of the task ends when the
// permit is lost.
func (t Tenants) Wrap(next asynq.Handler) asynq.Handler {
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

// Postpone makes a server try postponed tasks again when it is time, without counting that as a retry.
func Postpone(c asynq.Config) asynq.Config {
	c.IsFailure = func(err error) bool {
		var p *postponed
		return !errors.As(err, &p)
	}
	c.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
		var p *postponed
		if errors.As(err, &p) {
			return p.in
		}
		return asynq.DefaultRetryDelayFunc(n, err, task)
	}
	return c
}
