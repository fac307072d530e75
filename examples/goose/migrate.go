// Package goose shows database migrations under a lock: of all processes that start at once, one migrates at a time.
//
// goose has interfaces for a lock (SessionLocker, Locker). They cannot tell a migration that its lock was lost; the context of
// coord.Do can.
package goose

import (
	"context"
	"log/slog"

	"github.com/pressly/goose/v3"

	"github.com/coordgo/coord"
)

// Migrate applies the migrations that are missing. Other processes wait, and then find nothing to do.
//
// If the lock is lost, the transaction of the migration is rolled back, no other one begins, and the error is coord.ErrLost.
// A migration without a transaction has to look at its context itself.
func Migrate(ctx context.Context, client coord.Locker, provider *goose.Provider) error {
	return coord.Do(ctx, client, "migrations", func(ctx context.Context) error {
		applied, err := provider.Up(ctx)
		for _, m := range applied {
			slog.InfoContext(ctx, "migrated", "version", m.Source.Version, "took", m.Duration)
		}
		return err
	})
}
