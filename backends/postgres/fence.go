package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// staleToken is the SQLSTATE by which the function fence refuses a token.
const staleToken = "CO001"

// Fence refuses, with coord.ErrLost, a token of key that is smaller than one that a transaction with Fence has committed.
// The transaction can then only be rolled back, unless its caller goes back to a savepoint: do not. Transactions with Fence on
// one key run one after the other. It is for locks of any store: only the database is the same.
//
// Fence first, before any read or write, and not within a savepoint, which is refused. So it is sound under every isolation
// level. Above READ COMMITTED a transaction that comes second may fail to be serialized instead. After a read, under READ
// COMMITTED, a transaction could write what it has computed from values that an earlier holder has changed meanwhile.
//
// The function and its table are in [DefaultSchema], where [Open] makes them, or whoever runs the SQL of [Schema]: also where the
// locks are in another store. In another schema, call the function: SELECT schema.fence(key, token). Without them it is
// coord.ErrUnsupported.
func Fence(ctx context.Context, tx pgx.Tx, key string, token coord.Token) error {
	if token <= 0 {
		return fmt.Errorf("%w: token %d: want a positive one", driver.ErrInvalid, token)
	}
	_, err := tx.Exec(ctx, "SELECT "+DefaultSchema+".fence($1, $2)", pgx.QueryExecModeExec, []byte(key), int64(token))
	return fenced(err, key, token)
}

// FenceSQL is Fence for a transaction of database/sql, of any driver for PostgreSQL.
func FenceSQL(ctx context.Context, tx *sql.Tx, key string, token coord.Token) error {
	if token <= 0 {
		return fmt.Errorf("%w: token %d: want a positive one", driver.ErrInvalid, token)
	}
	_, err := tx.ExecContext(ctx, "SELECT "+DefaultSchema+".fence($1, $2)", []byte(key), int64(token))
	return fenced(err, key, token)
}

// fenced tells a stale token, and a function that is not there, from other errors. Each driver has an error of its own, with the code in it.
func fenced(err error, key string, token coord.Token) error {
	var stated interface{ SQLState() string }
	if !errors.As(err, &stated) {
		return err
	}
	switch stated.SQLState() {
	case staleToken:
		return &coord.Error{Op: "fence", Key: key, Err: fmt.Errorf("%w: token %d is older than one that was seen", coord.ErrLost, token)}
	case noSchema, noFunction:
		return fmt.Errorf("%w: this database has no function %s.fence: run what coord schema postgres prints; in another schema, call SELECT schema.fence(key, token): %w",
			driver.ErrUnsupported, DefaultSchema, err)
	}
	return err
}

var _ interface{ SQLState() string } = (*pgconn.PgError)(nil)
