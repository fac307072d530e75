package migration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"

	"github.com/coordgo/coord"
)

// redislockBefore tries for ten seconds, and extends the lock by hand between steps.
func redislockBefore(ctx context.Context, locker *redislock.Client, steps []func(context.Context) error) error {
	lock, err := locker.Obtain(ctx, "import", 30*time.Second, &redislock.Options{
		RetryStrategy: redislock.LimitRetry(redislock.LinearBackoff(100*time.Millisecond), 100),
	})
	if errors.Is(err, redislock.ErrNotObtained) {
		return fmt.Errorf("another import is running: %w", err)
	} else if err != nil {
		return err
	}
	defer func() { _ = lock.Release(context.WithoutCancel(ctx)) }()
	for _, step := range steps {
		if err := lock.Refresh(ctx, 30*time.Second, nil); err != nil {
			return err
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// redislockAfter waits for ten seconds. The client renews the lock.
func redislockAfter(ctx context.Context, client *coord.Client, steps []func(context.Context) error) error {
	err := coord.Do(ctx, client, "import", func(ctx context.Context) error {
		for _, step := range steps {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	}, coord.WaitAtMost(10*time.Second))
	if errors.Is(err, coord.ErrLocked) {
		return fmt.Errorf("another import is running: %w", err)
	}
	return err
}
