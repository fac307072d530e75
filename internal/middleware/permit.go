package middleware

import (
	"context"
	"time"

	"github.com/coordgo/coord"
)

// Permit is a lock, or a share of one, that a request needs to be served.
type Permit struct {
	Locker coord.Locker
	Key    string
	// Wait is how long the request waits; 0 is not at all. MaxWaiting is how many requests of this process may wait
	// for the key; 0 is however many.
	Wait       time.Duration
	MaxWaiting int
	Weight     int // 0 is 1
	Options    []coord.LockOption
}

// Do runs fn with the permit. ran says that it did. A request that is refused has an error, ErrLocked if others have
// what it needs.
func (p Permit) Do(ctx context.Context, fn func(context.Context) error) (ran bool, err error) {
	opts := p.Options[:len(p.Options):len(p.Options)]
	if p.Weight != 0 {
		opts = append(opts, coord.Weight(p.Weight))
	}
	if p.Wait <= 0 {
		if ran, err = coord.TryDo(ctx, p.Locker, p.Key, fn, opts...); !ran && err == nil {
			err = coord.ErrLocked
		}
		return ran, err
	}
	if p.MaxWaiting > 0 {
		opts = append(opts, coord.MaxWaiting(p.MaxWaiting))
	}
	err = coord.Do(ctx, p.Locker, p.Key, func(ctx context.Context) error {
		ran = true
		return fn(ctx)
	}, append(opts, coord.WaitAtMost(p.Wait))...)
	return ran, err
}
