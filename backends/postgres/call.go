package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/call"
)

const (
	minTimeout     = 10 * time.Millisecond
	defaultTimeout = time.Second
	maxTimeout     = 5 * time.Second
	// patience is for how many timeouts a statement is left alone, though for no longer than maxTimeout. To end it would cost
	// its connection, and a busy server up to three others: for the cancel request, and for the next connection two, if
	// sslmode is prefer and the server has no TLS. Twenty clients that do so after one second keep a slow server from all else.
	patience = 3
	// maxPause bounds the pause before a statement runs again that the server has undone because of another.
	maxPause = 20 * time.Millisecond
)

// errClosing ends the calls under way when the backend is closed. What was sent may have been applied.
var errClosing = errors.New("postgres: backend closed during the call")

// run calls fn on a connection, and returns when ctx or the backend ends, at the latest.
//
// pgx closes a connection whose statement is cancelled. So a statement is not cancelled with its caller, who has the
// backend's timeout at most: it ends by itself, or after patience, in a goroutine, whose answer then nobody reads. After
// the caller has gone nothing is sent any more.
func run[T any](ctx context.Context, b *backend, fn func(context.Context, conn) (T, error)) (T, error) {
	return runWithin(ctx, b, ordinary, b.options.timeout, func() {}, fn)
}

// runWithin is run that comes by its connection as by says, with another bound than the backend's timeout. It calls over when
// nothing is on its way any more, which may be after it has returned.
func runWithin[T any](ctx context.Context, b *backend, by way, most time.Duration, over func(), fn func(context.Context, conn) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	v, left, err := call.DoSend(ctx, b.calls, func(in *call.Call) (T, error) {
		return onConnection(ctx, b, by, most, in, fn)
	}, func(T, error) { over() })
	if !left {
		over()
	}
	return v, err
}

// onConnection calls fn, again while the server undoes what it does because of others.
func onConnection[T any](ctx context.Context, b *backend, by way, most time.Duration, in *call.Call, fn func(context.Context, conn) (T, error)) (none T, err error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(b.calls.Life(), end)()
	wait, cancel := context.WithTimeout(life, most)
	acquired, release, err := b.acquire(wait, by)
	cancel()
	switch {
	case err != nil && ctx.Err() != nil:
		return none, driver.NotSent(ctx.Err())
	case err != nil:
		return none, driver.NotSent(explain(err))
	}
	defer release()
	if !in.Send() {
		return none, driver.ErrNotSent // nobody reads it
	}
	bound, cancel := context.WithTimeout(life, max(most, min(patience*most, maxTimeout)))
	defer cancel()
	for tries := 1; ; tries++ {
		v, err := fn(bound, conn{acquired.Conn(), b.mode})
		if b.owned != nil && !b.calls.Closed() && b.suspects(acquired.Conn(), err, bound.Err() != nil, by) {
			b.pool.Reset()
			b.reserve.pool.Reset()
		}
		err = b.unmade(heedWarning(acquired.Conn(), err))
		pause := rand.N(min(time.Duration(tries)*time.Millisecond, maxPause))
		if undone(err) && ctx.Err() == nil && b.calls.Pause(bound, pause) == nil {
			continue
		}
		if err != nil {
			return none, b.classify(err)
		}
		return v, nil
	}
}

// suspects reports whether the idle connections beside c are to be replaced after err: if c broke, or no statement has ended in
// time since another one that did not, they are likely to be dead too; and if the server takes no writes any more, another
// host may. A single statement that waits for a row for too long says nothing of the others, and renewals, which have a
// connection of their own, say nothing of idle ones.
func (b *backend) suspects(c *pgx.Conn, err error, late bool, by way) bool {
	switch {
	case err == nil:
		if by != renewing {
			b.late.Store(false)
		}
		return false
	case late && c.IsClosed():
		return by != renewing && b.late.Swap(true)
	}
	return c.IsClosed() || isReadOnly(err)
}

// The codes of the errors that the server takes no writes, that the user may not do what it asks for, and that something is
// not there.
const (
	readOnlyServer = "25006"
	forbidden      = "42501"
	noSchema       = "3F000"
	noFunction     = "42883"
	noTable        = "42P01"
)

// isReadOnly reports whether the server refused a statement because it takes no writes.
func isReadOnly(err error) bool { return sqlState(err) == readOnlyServer }

// conn is a connection for one call.
type conn struct {
	*pgx.Conn
	mode pgx.QueryExecMode
}

// count runs a statement whose rows nobody reads, and gives how many it has changed.
func (c conn) count(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := c.Exec(ctx, sql, append([]any{c.mode}, args...)...)
	return tag.RowsAffected(), err
}

// row runs a statement that gives at most one row, and reports whether it did.
func (c conn) row(ctx context.Context, sql string, args []any, to ...any) (found bool, err error) {
	err = c.QueryRow(ctx, sql, append([]any{c.mode}, args...)...).Scan(to...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// rows runs a statement that gives rows, and calls each after it has scanned one into to.
func (c conn) rows(ctx context.Context, sql string, args, to []any, each func() error) error {
	rows, err := c.Query(ctx, sql, append([]any{c.mode}, args...)...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, to, each)
	return err
}

// hexed scans a bytea that the statement gives as hex digits. If it is not prepared, results come as text: a bytea then has the
// form that the session's bytea_output says, and pgx knows only one of the two.
type hexed struct{ to *[]byte }

// ScanText implements pgtype.TextScanner.
func (h hexed) ScanText(v pgtype.Text) (err error) {
	if *h.to = nil; v.Valid {
		*h.to, err = hex.DecodeString(v.String)
	}
	return err
}

// undone reports whether the server has undone a statement because of another one: it may be run again.
func undone(err error) bool {
	code := sqlState(err)
	return code == "40001" || code == "40P01"
}

// sqlState is the code of the server's error that err is of, and "" if it is of none.
func sqlState(err error) string {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return ""
	}
	return e.Code
}

// classify says what an error tells about the statement. An ERROR of the server means that the transaction was undone, but
// for those of connections, which a proxy may give for a server that it has lost.
// With FATAL and PANIC the session ends, which can be while a commit waits for replicas: the outcome is unknown, as it is
// when the connection breaks. Only a session that was idle for too long has read nothing of the statement.
func (b *backend) classify(err error) error {
	var e *pgconn.PgError
	switch {
	case err == nil || driver.Definite(err):
		return err
	case pgconn.SafeToRetry(err), errors.As(err, &e) && (e.SeverityUnlocalized == "ERROR" && !strings.HasPrefix(e.Code, "08") || e.Code == "57P05"):
		return driver.NotSent(explain(err))
	case b.calls.Closed():
		return fmt.Errorf("%w: %v", errClosing, err)
	}
	return err
}

// notSent marks the error of a call that changes nothing.
func notSent(err error) error { return driver.NotSent(explain(err)) }

// remedies are what to do about an error of the server, by its code.
var remedies = map[string]string{
	"28000":        "the server has no such user, or its pg_hba.conf refuses user or host",
	"28P01":        "wrong user or password",
	"3D000":        "the server has no such database: make it, or correct the path of the URL",
	noSchema:       "the tables are gone: run what coord schema postgres prints",
	noFunction:     "the functions are gone: run what coord schema postgres prints",
	noTable:        "the tables are gone: run what coord schema postgres prints",
	forbidden:      "the user has no permission: grant it usage of the schema, and select, insert, update and delete on its tables, and execute on its functions",
	readOnlyServer: "the server is a replica, or read only: use the address of the primary",
	"53300":        "the server has no more connections: raise max_connections, or lower pool_size",
}

// oneLine is an error of pgx that has a line for each attempt to connect.
type oneLine struct{ error }

var lines = strings.NewReplacer(":\n\t", ": ", "\n\t", "; ")

func (e oneLine) Error() string { return lines.Replace(e.error.Error()) }
func (e oneLine) Unwrap() error { return e.error }

// explain puts what to do in front of an error, where that is known.
func explain(err error) error {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		err = oneLine{err}
	}
	if remedy := remedies[sqlState(err)]; remedy != "" {
		return fmt.Errorf("%s: %w", remedy, err)
	}
	return err
}
