package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// The order of texts in keys does not depend on the locale: with an update of the system's that of another collation changes,
// and indexes no longer find what is there.
func TestKeysHaveNoLocale(t *testing.T) {
	t.Parallel()
	conn := must[*pgx.Conn](t)(pgx.Connect(t.Context(), superuser(t, server(t).Addr)))
	defer conn.Close(t.Context())
	rows := must[pgx.Rows](t)(conn.Query(t.Context(), `SELECT i.indexrelid::regclass || '.' || a.attname FROM pg_index AS i
		JOIN pg_attribute AS a ON a.attrelid = i.indexrelid
		WHERE a.atttypid = 'text'::regtype AND a.attcollation <> '"C"'::regcollation AND i.indrelid::regclass::text LIKE 'coord.%'`))
	if columns := must[[]string](t)(pgx.CollectRows(rows, pgx.RowTo[string])); len(columns) > 0 {
		t.Errorf(`not COLLATE "C": %v`, columns)
	}
}
