package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// A swap that waits for a row until its bound has passed is not made, whether it writes the row, makes it or only compares it.
func TestSwapThatComesTooLate(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	super := must[*pgx.Conn](t)(pgx.Connect(t.Context(), superuser(t, srv.Addr)))
	defer super.Close(context.WithoutCancel(t.Context()))
	const lock = "SELECT FROM coord.cells WHERE key = 'k' FOR UPDATE"
	for name, test := range map[string]struct {
		keeps string // what another transaction does with the last cell
		cells []cell
	}{
		"write":   {lock, []cell{{kind: limitKind, key: "k", version: 1}}},
		"make":    {"INSERT INTO coord.cells SELECT kind, 'none', name, 1, value, until FROM coord.cells WHERE key = 'k'", []cell{{kind: limitKind, key: "none"}}},
		"compare": {lock, []cell{{kind: limitKind, key: "a", version: 1}, {kind: limitKind, key: "k", version: 1, same: true}}},
	} {
		must[pgconn.CommandTag](t)(super.Exec(t.Context(), `TRUNCATE coord.cells; INSERT INTO coord.cells (kind, key, name, version, value, until)
			SELECT 'limit', convert_to(key, 'UTF8'), '', 1, 'old', clock_timestamp() + interval '1 hour' FROM unnest(ARRAY['a', 'k']) AS key`, pgx.QueryExecModeSimpleProtocol))
		for i := range test.cells {
			test.cells[i].value, test.cells[i].keep = []byte("new"), time.Hour
		}
		other := must[pgx.Tx](t)(super.Begin(t.Context()))
		must[pgconn.CommandTag](t)(other.Exec(t.Context(), test.keeps))
		var now time.Time
		server := func() time.Time {
			if err := super.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
				t.Fatal(err)
			}
			return now
		}
		until := server().Add(500 * time.Millisecond)
		swapped := make(chan error, 1)
		go func() {
			at := span{anyTime.from, pgtype.Timestamptz{Time: until, Valid: true}}
			r, err := b.swap(t.Context(), test.cells, at)
			if r.swapped {
				err = errors.New("the swap was made")
			}
			swapped <- err
		}()
		for server().Before(until) {
			pause(time.Millisecond)
		}
		if err := other.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-swapped; err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		if !b.calls.Wait(hung) { // it may have been left
			t.Fatalf("%s: the swap does not end", name)
		}
		read := must[[]cell](t)(readCells(t, b, append(test.cells, cell{kind: limitKind, key: "a"}, cell{kind: limitKind, key: "k"})))
		for _, c := range read {
			if string(c.value) == "new" {
				t.Errorf("%s: the cell %s was written", name, c.key)
			}
		}
	}
}

func readCells(t *testing.T, b *backend, cs []cell) (read []cell, err error) {
	err = answered(func() error { read, _, err = b.load(t.Context(), cs); return err })
	return read, err
}
