package gocron

import (
	"context"

	"github.com/go-co-op/gocron/v2"

	"github.com/coordgo/coord"
)

// Locker takes the lock of a job for one run. A scheduler that does not get it skips the run.
type Locker struct {
	Client coord.Locker
	// Options should have a coord.MinHold that is longer than clocks differ and shorter than the interval of the job. Otherwise
	// a scheduler whose clock is behind runs a short job again.
	Options []coord.LockOption
}

// Lock makes one attempt: gocron skips the run after an error.
func (l Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lock, err := l.Client.TryLock(ctx, coord.Key("job", key), l.Options...)
	if err != nil {
		return nil, err // and no *coord.Lock that is nil
	}
	return lock, nil
}

// Guarded makes the function of a job that runs under a lock of its own. Its context ends when the lock is lost, which gocron
// cannot do: its Lock has no way to say so. Use it without a Locker.
func Guarded(client coord.Locker, key string, job func(context.Context) error, opts ...coord.LockOption) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := coord.TryDo(ctx, client, coord.Key("job", key), job, opts...)
		return err
	}
}
