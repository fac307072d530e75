package guide

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/coordgo/coord"
)

// invoices lets one process at a time write invoices.
func invoices(ctx context.Context, client *coord.Client) error {
	return coord.Do(ctx, client, "invoices", func(ctx context.Context) error {
		return writeInvoices(ctx) // ctx ends if the lock is lost
	})
}

// moveMoney locks both accounts, whichever is given first.
func moveMoney(ctx context.Context, client *coord.Client, from, to string, move func(context.Context) error) error {
	return coord.DoAll(ctx, client, []string{from, to}, move, coord.WaitAtMost(10*time.Second))
}

// export waits at most a minute for the lock.
func export(ctx context.Context, client *coord.Client) error {
	err := coord.Do(ctx, client, "export", writeExport, coord.TTL(20*time.Second), coord.WaitAtMost(time.Minute))
	switch {
	case errors.Is(err, coord.ErrLost):
		return errors.Join(err, discardExport()) // another process may write it now
	case errors.Is(err, coord.ErrLocked):
		return errors.New("another export has been running for a minute")
	}
	return err
}

// byHand takes the lock itself, and gives it back at its end.
func byHand(ctx context.Context, client *coord.Client) (err error) {
	lock, err := client.Lock(ctx, "report", coord.MaxHold(10*time.Minute))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock(ctx)) }()
	work, cancel := lock.Context(ctx) // ends when the lock is lost
	defer cancel()
	return writeReport(work)
}

// lead runs the work in one of many processes, until ctx ends.
func lead(ctx context.Context, client *coord.Client, work func(context.Context) error) error {
	return coord.Lead(ctx, client, "dispatcher", work, coord.TTL(10*time.Second))
}

// dispatchOrders stops when it does not lead any more, and fences what it writes with its term.
func dispatchOrders(ctx context.Context) error {
	lock, _ := coord.Held(ctx, "dispatcher")
	for ctx.Err() == nil {
		if err := dispatchNext(ctx, lock.Token()); err != nil {
			slog.WarnContext(ctx, "an order was not dispatched", "term", lock.Token(), "error", err)
			select {
			case <-time.After(time.Second): // not in a row
			case <-ctx.Done():
			}
		}
	}
	return context.Cause(ctx)
}

// follow tells the application where the leader is: "" while nobody leads, or the store does not say who.
func follow(ctx context.Context, client *coord.Client, leaderAt func(addr string)) {
	for holder, err := range client.Watch(ctx, "dispatcher") {
		if err != nil && !errors.Is(err, coord.ErrNotHeld) {
			slog.WarnContext(ctx, "watching the dispatcher", "error", err)
		}
		leaderAt(holder.Name) // what it gave as HolderName
	}
}
