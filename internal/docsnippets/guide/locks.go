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

// refresh loads the prices, unless another process does so already.
func refresh(ctx context.Context, client *coord.Client) error {
	ran, err := coord.TryDo(ctx, client, "prices", loadPrices)
	if err == nil && !ran {
		slog.InfoContext(ctx, "another process loads the prices")
	}
	return err
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

// pages stops before the next page when the lock is lost.
func pages(ctx context.Context, lock *coord.Lock, n int) error {
	for page := range n {
		if err := lock.Err(); err != nil { // reads the clocks
			return err
		}
		if err := printPage(ctx, page); err != nil {
			return err
		}
	}
	return nil
}

// gaveBack handles the result of Unlock.
func gaveBack(ctx context.Context, lock *coord.Lock) error {
	err := lock.Unlock(ctx)
	switch {
	case errors.Is(err, coord.ErrLost): // ErrMaxHold matches too
		return errors.Join(err, undo()) // another process may have held the key since
	case errors.Is(err, coord.ErrUnavailable):
		return nil // the work is done, and the key becomes free soon
	}
	return err
}

// expel revokes the lock of the present holder.
func expel(ctx context.Context, client *coord.Client, key string) error {
	holder, err := client.Inspect(ctx, key)
	if err != nil {
		return err // ErrNotHeld if nobody holds it
	}
	slog.WarnContext(ctx, "revoking a lock", "key", key, "holder", holder.Name, "pid", holder.PID, "left", holder.TTL)
	return client.Break(ctx, key, holder.ID)
}

// tick runs the clean-up once in five minutes, on one of many machines.
func tick(ctx context.Context, client *coord.Client) error {
	_, err := coord.TryDo(ctx, client, "cron/cleanup", cleanUp, coord.MinHold(4*time.Minute))
	return err
}

// lead keeps one of many workers active, until ctx ends.
func lead(ctx context.Context, client *coord.Client) error {
	return coord.Lead(ctx, client, "dispatcher", dispatch, coord.TTL(10*time.Second))
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

// importFiles works longer than its lease, in steps that the next holder can continue.
func importFiles(ctx context.Context, client *coord.Client, files []string) error {
	return coord.Do(ctx, client, "import", func(ctx context.Context) error {
		lock, _ := coord.Held(ctx, "import")
		for _, file := range files {
			if err := importFile(ctx, file, lock.Token()); err != nil { // skips what is imported already
				return err
			}
		}
		return nil
	}, coord.TTL(15*time.Second), coord.MaxHold(2*time.Hour))
}

// move takes two locks in a fixed order, so that two moves cannot wait for each other.
func move(ctx context.Context, client *coord.Client, from, to string) error {
	first, second := min(from, to), max(from, to)
	return coord.Do(ctx, client, coord.Key("account", first), func(ctx context.Context) error {
		return coord.Do(ctx, client, coord.Key("account", second), func(ctx context.Context) error {
			return book(ctx)
		})
	})
}
