package goose

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pressly/goose/v3"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/coordtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// provider has migrations for the database in a file. Each process has a connection of its own.
func provider(t *testing.T, path string, migrations ...func(context.Context, *sql.Tx) error) *goose.Provider {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	var all []*goose.Migration
	for i, run := range migrations {
		all = append(all, goose.NewGoMigration(int64(i+1), &goose.GoFunc{RunTx: run}, nil))
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithGoMigrations(all...), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func create(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "CREATE TABLE orders (id INTEGER PRIMARY KEY)")
	return err
}

// Eight processes start at once. One migrates at a time, and each migration runs once.
func TestOneMigrates(t *testing.T) {
	store, path := memory.NewStore(), filepath.Join(t.TempDir(), "shop.db")
	var active, runs atomic.Int32
	fill := func(ctx context.Context, tx *sql.Tx) error {
		if active.Add(1) != 1 {
			t.Error("two migrations at once")
		}
		defer active.Add(-1)
		runs.Add(1)
		_, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES (7)")
		return err
	}
	var processes sync.WaitGroup
	for range 8 {
		client, p := coordtest.NewOn(t, store), provider(t, path, create, fill)
		processes.Go(func() {
			if err := Migrate(t.Context(), client.Client, p); err != nil {
				t.Error(err)
			}
		})
	}
	processes.Wait()
	if runs.Load() != 1 {
		t.Errorf("the migration ran %d times", runs.Load())
	}
}

// A migration that loses its lock is rolled back, and no other one begins.
func TestLossStopsMigrations(t *testing.T) {
	client := coordtest.New(t)
	p := provider(t, filepath.Join(t.TempDir(), "shop.db"), create,
		func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES (7)"); err != nil {
				return err
			}
			client.Lose("migrations")
			<-ctx.Done()
			return nil // as if it had not looked
		},
		func(context.Context, *sql.Tx) error {
			t.Error("a migration begins without the lock")
			return nil
		})
	if err := Migrate(t.Context(), client.Client, p); !errors.Is(err, coord.ErrLost) {
		t.Errorf("%v: want ErrLost", err)
	}
	if version, err := p.GetDBVersion(t.Context()); version != 1 || err != nil {
		t.Errorf("version %d, %v: want 1", version, err)
	}
}
