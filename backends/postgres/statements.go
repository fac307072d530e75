package postgres

import (
	"embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

//go:embed sql
var files embed.FS

// functions are the files of the functions that the schema has for the client's calls: PL/pgSQL keeps the plans of the
// statements in them, so that a call is parsed and planned in a moment, without any statement prepared by the client.
var functions = []string{"decide", "take", "queue", "unlock", "break_now", "renew", "share", "load", "swap"}

// functionNames are the functions in these files.
var functionNames = []string{"decide_1", "take_1", "queue_1", "resume_1", "unlock_2", "release_1", "break_now_2", "renew_3", "share_1", "unshare_1", "renew_shares_1", "load_1", "swap_2", "swap_all_2"}

// statements are the texts of the statements, for one schema.
type statements struct {
	take, queue, resume, renew, unlock, breakHold, breakNow, inspect, list string
	share, unshare, renewShares, breakShare, holders, listShares           string
	check, load, swap, swapAll                                             string
	sweeps                                                                 []string
}

func newStatements(schema string) statements {
	call := func(columns, function string) string { return "SELECT " + columns + " FROM " + schema + "." + function }
	return statements{
		take:        call("*", "take_1($1, $2, $3, false)"),
		queue:       call("*", "queue_1($1, $2, $3, $4)"),
		resume:      call("*", "resume_1($1, $2, $3, $4)"),
		renew:       call("encode(of_key, 'hex'), by_id, with_token, remains", "renew_3($1, $2, $3, $4)"),
		unlock:      "CALL " + schema + ".release_1($1, $2, $3, NULL)",
		breakNow:    call("*", "break_now_2($1, $2)"),
		share:       call("*", "share_1($1, $2, $3, $4, $5, $6, $7)"),
		unshare:     call("*", "unshare_1($1, $2, $3)"),
		renewShares: call("encode(of_key, 'hex'), by_id, with_token, remains, has_slot, bound", "renew_shares_1($1, $2, $3, $4, $5, $6)"),
		breakShare:  text("break_share", schema), holders: text("holders", schema), listShares: text("list_shares", schema),
		breakHold: text("break", schema), inspect: text("inspect", schema), list: text("list", schema), check: text("check", schema),
		load:    call("has_version, encode(has_value, 'hex'), at", "load_1($1, $2, $3)"),
		swap:    call("swapped, has_version, encode(has_value, 'hex'), at", "swap_2($1, $2, $3, $4, $5, $6, $7, $8, $9)"),
		swapAll: call("*", "swap_all_2($1, $2, $3, $4, $5, $6, $7, $8, $9)"),
		sweeps:  sweepTexts(schema),
	}
}

// micros matches {micros(x)}.
var micros = regexp.MustCompile(`\{micros\((.*)\)\}`)

// text gives a file with the schema put in, and with the words for times written out: {now} is the server's clock in
// microseconds, {micros(x)} an interval in microseconds.
//
// In functions every operator has operands of exactly its types, so that none that a user has made in another schema fits
// better.
func text(name, schema string) string {
	b, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // it is embedded
	}
	return strings.ReplaceAll(expand(string(b)), "{schema}", schema)
}

// waits matches {waits(x)}: whether a place counts that ends at x. One from far in the future is from before the clock was
// set back, and its waiter dead: the next sign of life makes it count again.
var waits = regexp.MustCompile(`\{waits\(([a-z.]*)\)\}`)

func expand(sql string) string {
	s := strings.ReplaceAll(sql, "{now}", "{micros(clock_timestamp())}")
	s = waits.ReplaceAllString(s, fmt.Sprintf("$1 > now AND $1 <= now + interval '%d seconds'", int((maxPlace+time.Second).Seconds())))
	s = strings.ReplaceAll(s, "{maxholders}", strconv.Itoa(driver.MaxHolders))
	return micros.ReplaceAllString(s, "(extract(epoch FROM $1) * 1000000.0)::bigint")
}

// schemaText is what makes the tables and the functions.
func schemaText(schema string) string {
	var all strings.Builder
	for _, name := range functions {
		all.WriteString(text(name, schema) + "\n")
	}
	return strings.NewReplacer("{functions}\n", all.String(), "{upgrade}\n", text("upgrade", schema)+"\n").Replace(text("schema", schema))
}

// DefaultSchema is where the tables are, unless the URL or [WithSchema] says otherwise.
const DefaultSchema = "coord"

// schemaName is what a schema may be called. It needs no quotes, unless it is a word of SQL, which the server tells.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,56}$`)

func checkSchema(name string) error {
	if !schemaName.MatchString(name) || strings.HasPrefix(name, "pg_") {
		return fmt.Errorf("%w: schema %q: want a lower-case letter or _, then at most 56 of these and digits, but not pg_ in front", driver.ErrInvalid, name)
	}
	return nil
}

// Schema gives the SQL that makes the tables and functions in a schema, for those who do not let programs make them. To run
// it again changes nothing. The first call that may write something runs it, unless all are there. A name that Open does not take is ErrInvalid, unless it is a
// word of SQL, which only the server knows.
func Schema(name string) (string, error) {
	if err := checkSchema(name); err != nil {
		return "", err
	}
	return schemaText(name), nil
}
