package postgres

import (
	"embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/coordgo/coord/driver"
)

//go:embed sql
var files embed.FS

// statements are the texts of the statements, for one schema.
type statements struct {
	lock, renew, unlock, breakHold, inspect, list string
	check, load, swap                             string
	sweepLocks, sweepCells                        string
}

func newStatements(schema string) statements {
	return statements{
		lock: text("lock", schema), renew: text("renew", schema), unlock: text("unlock", schema),
		breakHold: text("break", schema), inspect: text("inspect", schema), list: text("list", schema),
		check: text("check", schema), load: text("load", schema), swap: text("swap", schema),
		sweepLocks: text("sweep_locks", schema), sweepCells: text("sweep_cells", schema),
	}
}

// micros matches {micros(x)}.
var micros = regexp.MustCompile(`\{micros\((.*)\)\}`)

// text gives a file with the schema put in, and with the words for times written out: {now} is the server's clock in
// microseconds, {micros(x)} an interval in microseconds.
func text(name, schema string) string {
	b, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // it is embedded
	}
	s := strings.ReplaceAll(string(b), "{now}", "{micros(clock_timestamp())}")
	s = micros.ReplaceAllString(s, "(extract(epoch FROM $1) * 1000000)::bigint")
	return strings.ReplaceAll(s, "{schema}", schema)
}

// DefaultSchema is where the tables are, unless the URL or [WithSchema] says otherwise.
const DefaultSchema = "coord"

// schemaName is what a schema may be called. It needs no quotes.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,56}$`)

func checkSchema(name string) error {
	if !schemaName.MatchString(name) {
		return fmt.Errorf("%w: schema %q: want a lower-case letter or _, then at most 56 of these and digits", driver.ErrInvalid, name)
	}
	return nil
}

// Schema gives the SQL that makes the tables in a schema, for those who do not let programs make tables. To run it again
// changes nothing. Open and New run it, unless the tables are there. A name that Open does not take is ErrInvalid.
func Schema(name string) (string, error) {
	if err := checkSchema(name); err != nil {
		return "", err
	}
	return text("schema", name), nil
}
