package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// A holder that was frozen in the middle of its transaction wakes up and writes: the database refuses it, at every
// isolation level, though the holder goes on as if nothing were wrong.
func TestFrozenHolderIsRefused(t *testing.T) {
	t.Parallel()
	srv := server(t)
	admin(t, superuser(t, srv.Addr), "CREATE TABLE public.balances (id int PRIMARY KEY, cents int); INSERT INTO public.balances VALUES (1, 0); GRANT ALL ON public.balances TO app")
	pool := open(t, patientURL(t, srv.Addr)).pool
	for i, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			ctx := t.Context()
			begin := func() pgx.Tx {
				tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
				if err != nil {
					t.Fatal(err)
				}
				return tx
			}
			write := func(tx pgx.Tx, cents int) error {
				_, err := tx.Exec(ctx, "UPDATE balances SET cents = $1 WHERE id = 1", cents)
				return err
			}
			key, token := fmt.Sprint("account", i), coord.Token(33)
			frozen := begin()
			if _, err := frozen.Exec(ctx, "SELECT cents FROM balances"); err != nil {
				t.Fatal(err)
			}
			next := begin()
			if err := errors.Join(Fence(ctx, next, key, token+1), write(next, 200), next.Commit(ctx)); err != nil {
				t.Fatalf("the next holder: %v", err)
			}
			// Above READ COMMITTED what it has read is too old, whatever its token: if it tries again, it is ErrLost.
			err := Fence(ctx, frozen, key, token)
			if undone := undone(err); undone != (level != pgx.ReadCommitted) || !undone && !errors.Is(err, coord.ErrLost) {
				t.Errorf("Fence of the frozen holder: %v", err)
			}
			if err := write(frozen, 100); err == nil {
				t.Error("a transaction whose token was refused writes")
			}
			if err := frozen.Commit(ctx); !errors.Is(err, pgx.ErrTxCommitRollback) {
				t.Errorf("Commit: %v, want a rollback", err)
			}
			late := begin()
			if err := Fence(ctx, late, key, token); !errors.Is(err, coord.ErrLost) {
				t.Errorf("Fence of the frozen holder in another transaction: %v, want ErrLost", err)
			}
			if err := late.Rollback(ctx); err != nil {
				t.Error(err)
			}
			again := begin() // the next holder once more
			if err := errors.Join(Fence(ctx, again, key, token+1), again.Commit(ctx)); err != nil {
				t.Errorf("the next holder once more: %v", err)
			}
			var cents int
			if err := pool.QueryRow(ctx, "SELECT cents FROM balances WHERE id = 1").Scan(&cents); err != nil || cents != 200 {
				t.Errorf("%d cents, %v, want 200", cents, err)
			}
		})
	}
}

// While a transaction with a fence is open, that of a later holder waits: their effects do not mix.
func TestFenceSerializes(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	ctx := t.Context()
	old, err := b.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := Fence(ctx, old, "k", 1); err != nil {
		t.Fatal(err)
	}
	fenced := make(chan error, 1)
	go func() {
		fenced <- pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error { return Fence(ctx, tx, "k", 2) })
	}()
	for waits := 0; waits == 0; {
		err := b.pool.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = 'app' AND datname = current_database()").Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-fenced:
			t.Fatalf("a later holder fenced while the former's transaction was open: %v", err)
		default:
		}
	}
	if err := old.Commit(ctx); err != nil {
		t.Errorf("the former holder: %v", err)
	}
	if err := <-fenced; err != nil {
		t.Errorf("the later holder: %v", err)
	}
}

func TestFenceSQL(t *testing.T) {
	t.Parallel()
	srv := server(t)
	db, err := sql.Open("pgx", urlOf(t, appUser, srv.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	fence := func(token coord.Token) error {
		tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := FenceSQL(t.Context(), tx, "k", token); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}
	for _, step := range []struct {
		token coord.Token
		want  error
	}{{5, nil}, {5, nil}, {4, coord.ErrLost}, {6, nil}, {5, coord.ErrLost}, {0, coord.ErrInvalid}} {
		if err := fence(step.token); !errors.Is(err, step.want) {
			t.Errorf("token %d: %v, want %v", step.token, err, step.want)
		}
	}
}

// Where coord's tables are in another schema, or the locks in another store, the fence says what to do.
func TestFenceWithoutItsFunction(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	db, err := sql.Open("pgx", urlOf(t, appUser, srv.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, what := range []string{"FUNCTION coord.fence", "SCHEMA coord"} {
		admin(t, superuser(t, srv.Addr), "DROP "+what+" CASCADE")
		err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error { return Fence(t.Context(), tx, "k", 1) })
		if !errors.Is(err, driver.ErrUnsupported) || !contains(err, "coord schema postgres") || !contains(err, "SELECT schema.fence(key, token)") {
			t.Errorf("Fence without the %s: %v, want ErrUnsupported that says what to do", what, err)
		}
		tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
		if err != nil {
			t.Fatal(err)
		}
		err = FenceSQL(t.Context(), tx, "k", 1)
		if !errors.Is(err, driver.ErrUnsupported) || !contains(err, "coord schema postgres") {
			t.Errorf("FenceSQL without the %s: %v, want ErrUnsupported that says what to do", what, err)
		}
		_ = tx.Rollback()
	}
}
