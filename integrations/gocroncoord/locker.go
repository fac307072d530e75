package gocroncoord

import (
	"context"

	"github.com/go-co-op/gocron/v2"

	"github.com/coordgo/coord"
)

// Locker is gocron's Locker, for gocron.WithDistributedLocker: each run of a job takes the lock of the job,
// and a scheduler that does not get it skips the run. Client is needed. It is safe for concurrent use.
//
// The lock of a job is coord.Key("job", name), so each job needs a name of its own: gocron.WithName. gocron
// cannot tell a run that its lock was lost: the run goes on, and another process may run the job meanwhile. A
// job that has to stop then runs under [Guarded].
type Locker struct {
	// Client is usually a *coord.Client.
	Client coord.Locker
	// Options of the lock. There should be a coord.MinHold that is longer than clocks differ and shorter than the
	// interval of the job. Otherwise a scheduler whose clock is behind runs a short job again.
	Options []coord.LockOption
}

var _ gocron.Locker = Locker{}

// Lock makes one attempt. If another process runs the job, the error matches coord.ErrLocked. gocron calls it.
func (l Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lock, err := l.Client.TryLock(ctx, coord.Key("job", key), l.Options...)
	if err != nil {
		return nil, err // and no *coord.Lock that is nil
	}
	return lock, nil
}

// Guarded makes the function of a job that runs under the lock coord.Key("job", key), and is skipped, with a
// nil error, while another process has it. When the lock is lost, the job's ctx ends with cause
// coord.ErrLost, and gocron gets an error that matches it. Use it without a Locker. The function is safe for
// concurrent use if job is.
func Guarded(client coord.Locker, key string, job func(context.Context) error, opts ...coord.LockOption) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := coord.TryDo(ctx, client, coord.Key("job", key), job, opts...)
		return err
	}
}
