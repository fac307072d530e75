package guide

import (
	"context"

	"github.com/coordgo/coord"
)

// settle locks the account, and calls a function that locks it too.
func settle(ctx context.Context, l coord.Locker) error {
	return coord.Do(ctx, l, "account/7", func(ctx context.Context) error {
		return transfer(ctx, l)
	})
}

// transfer locks the account for callers without the lock. Under settle it re-enters.
func transfer(ctx context.Context, l coord.Locker) error {
	return coord.Do(ctx, l, "account/7", func(ctx context.Context) error {
		return book(ctx)
	})
}

// audited does something beside the work, in a goroutine that does not share its locks.
func audited(ctx context.Context, audit func(context.Context)) {
	coord.Go(ctx, func(ctx context.Context) { audit(ctx) }) // with a new owner
}
