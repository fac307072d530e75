package guide

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/coordgo/coord/coordtest"
)

// row is a table of one row, which knows the one statement of the guide.
type row struct {
	id    string
	token int64
}

var errNotNeeded = errors.New("not needed")

func (r *row) Connect(context.Context) (driver.Conn, error) { return r, nil }
func (r *row) Driver() driver.Driver                        { return nil }
func (r *row) Prepare(string) (driver.Stmt, error)          { return nil, errNotNeeded }
func (r *row) Begin() (driver.Tx, error)                    { return nil, errNotNeeded }
func (r *row) Close() error                                 { return nil }

func (r *row) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if !strings.HasSuffix(query, "SET state = 'settled', token = $1 WHERE id = $2 AND token <= $1") {
		return nil, errors.New("another statement: " + query)
	}
	token, id := args[0].Value.(int64), args[1].Value.(string)
	if id != r.id || r.token > token {
		return driver.RowsAffected(0), nil
	}
	r.token = token
	return driver.RowsAffected(1), nil
}

// A later holder has written: the late one is told.
func TestSettleInvoice(t *testing.T) {
	client := coordtest.New(t)
	table := &row{id: "7"}
	db := sql.OpenDB(table)
	defer db.Close()
	for range 2 {
		if err := settleInvoice(t.Context(), client.Client, db, "7"); err != nil {
			t.Error(err)
		}
	}
	if err := settleInvoice(t.Context(), client.Client, db, "8"); err == nil {
		t.Error("an invoice that is not there was settled")
	}
	table.token += 1 << 40 // that of a later holder
	if err := settleInvoice(t.Context(), client.Client, db, "7"); err == nil || !strings.Contains(err.Error(), "later holder") {
		t.Errorf("late: %v", err)
	}
}
