package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coordgo/coord/driver"
)

const (
	// schemaVersion is that of sql/schema.sql.
	schemaVersion = 2
	// migrateWithin bounds the work on the tables when a store is opened: many clients may open it at once.
	migrateWithin = 30 * time.Second
)

// tables says whether this client knows that the tables and the functions are there. Only calls that may write something
// make them: who only looks leaves a database as it is.
type tables struct {
	there atomic.Bool
	turn  chan struct{} // has a value while somebody makes them
}

// migrate looks at the server, and whether the tables and the functions are there, or could be made.
func (b *backend) migrate(ctx context.Context) error {
	server, err := runWithin(ctx, b, ordinary, migrateWithin, func() {}, func(ctx context.Context, c conn) (server string, err error) {
		var version, commit, messages string
		var number int
		var there, isWord, may bool
		var functions int
		table := b.options.schema + ".version"
		_, err = c.row(ctx, text("open", b.options.schema), []any{table, b.options.schema, functionNames}, &version, &server, &number,
			&commit, &messages, &there, &functions, &isWord, &may)
		switch {
		case err != nil:
			return server, notSent(err)
		case otherServer(version, number) != "":
			return server, fmt.Errorf("%w: the server is %s: want PostgreSQL 14 or later", driver.ErrUnsupported, otherServer(version, number))
		case commit == "off":
			return server, fmt.Errorf("%w: synchronous_commit is off: a crash of the server would lose locks: set it to on", driver.ErrUnsupported)
		case messages == "error" && b.owned != nil: // else nobody reads warnings
			return server, fmt.Errorf("%w: client_min_messages is error: nothing would tell of a commit that a replica lacks: set it to warning", driver.ErrUnsupported)
		}
		if there {
			var version int
			if _, err := c.row(ctx, "SELECT max(version) FROM "+table, nil, &version); err != nil {
				return server, notSent(err)
			}
			if err := b.checkVersion(version); err != nil {
				return server, err
			}
		}
		switch {
		case there && functions == len(functionNames):
			b.tables.there.Store(true)
		case !there && isWord:
			return server, fmt.Errorf("%w: schema %s: that is a word of SQL: want another name", driver.ErrInvalid, b.options.schema)
		case !may:
			return server, fmt.Errorf("%w: %s", driver.ErrNotSent, b.lacksTables())
		}
		return server, nil
	})
	b.info.Server = "PostgreSQL " + server
	return err
}

// checkVersion refuses tables of another version. Whoever opens old ones first does not upgrade them: from then on older
// clients can take nothing.
func (b *backend) checkVersion(version int) error {
	remedy := "use a later version of coord"
	switch {
	case version == schemaVersion:
		return nil
	case version < schemaVersion:
		remedy = "run what coord schema postgres prints when older clients may stop, see docs/operations/postgresql.md"
	}
	return fmt.Errorf("%w: the tables in schema %s are of version %d, want %d: %s", driver.ErrUnsupported, b.options.schema, version, schemaVersion, remedy)
}

// oldest is the version of the server that is wanted at least.
const oldest = 14

// otherServer names a server on which coord is not tested. Some speak as PostgreSQL does, and do not lock rows as it does.
func otherServer(version string, number int) string {
	switch {
	case strings.HasPrefix(version, "CockroachDB"):
		return "CockroachDB"
	case strings.Contains(version, "-YB-"):
		return "YugabyteDB"
	case number < oldest*10_000:
		return fmt.Sprintf("PostgreSQL %d", number/10_000)
	}
	return ""
}

// beReady makes the tables and the functions, unless they are there.
func (b *backend) beReady(ctx context.Context) error {
	if b.tables.there.Load() {
		return nil
	}
	select {
	case b.tables.turn <- struct{}{}:
		defer func() { <-b.tables.turn }()
	case <-ctx.Done():
		return driver.NotSent(ctx.Err())
	case <-b.calls.Life().Done():
		return driver.ErrClosed
	}
	if b.tables.there.Load() {
		return nil
	}
	_, err := runWithin(ctx, b, ordinary, migrateWithin, func() {}, func(ctx context.Context, c conn) (struct{}, error) {
		return struct{}{}, b.make(ctx, c)
	})
	if err == nil {
		b.tables.there.Store(true)
	}
	return driver.NotSent(err) // nothing of what is to be done then
}

// make runs the schema.
func (b *backend) make(ctx context.Context, c conn) error {
	_, err := c.Exec(ctx, schemaText(b.options.schema), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		_, _ = c.count(ctx, "ROLLBACK") // for another try; if it fails, so does that
	}
	if sqlState(err) == forbidden {
		return fmt.Errorf("%w: %s: %w", driver.ErrNotSent, b.lacksTables(), err)
	}
	return err
}

func (b *backend) lacksTables() string {
	return fmt.Sprintf("schema %s lacks tables or functions: run what coord schema postgres prints, as a user who may make them", b.options.schema)
}

// unmade turns the error that there are no tables yet into what a call finds in empty ones: no hold. Of tables that were there
// it is an error.
func (b *backend) unmade(err error) error {
	switch sqlState(err) {
	case noSchema, noFunction, noTable:
		if !b.tables.there.Load() {
			return driver.ErrNotHeld
		}
	}
	return err
}
