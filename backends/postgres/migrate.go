package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coordgo/coord/driver"
)

const (
	// schemaVersion is that of sql/schema.sql.
	schemaVersion = 1
	// migrateWithin bounds the work on the tables when a store is opened: many clients may open it at once.
	migrateWithin = 30 * time.Second
)

// migrate looks at the server, and makes the tables unless they are there.
func (b *backend) migrate(ctx context.Context) error {
	server, err := runWithin(ctx, b, migrateWithin, func() {}, func(ctx context.Context, c conn) (server string, err error) {
		var commit string
		var there bool
		table := b.options.schema + ".version"
		_, err = c.row(ctx, "SELECT current_setting('server_version'), current_setting('synchronous_commit'), to_regclass($1) IS NOT NULL",
			[]any{table}, &server, &commit, &there)
		switch {
		case err != nil:
			return server, notSent(err)
		case commit == "off":
			return server, fmt.Errorf("%w: synchronous_commit is off: a crash of the server would lose locks: set it to on", driver.ErrUnsupported)
		case !there:
			_, err = c.Exec(ctx, text("schema", b.options.schema), pgx.QueryExecModeSimpleProtocol)
			return server, err
		}
		var version int
		if _, err := c.row(ctx, "SELECT max(version) FROM "+table, nil, &version); err != nil {
			return server, notSent(err)
		}
		if version != schemaVersion {
			return server, fmt.Errorf("%w: the tables in schema %s are of version %d: want %d", driver.ErrUnsupported, b.options.schema, version, schemaVersion)
		}
		return server, nil
	})
	b.info.Server = "PostgreSQL " + server
	return err
}
