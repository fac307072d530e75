package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// planNode is a step of a plan that was run: the rows that it gave, and those that it looked at for nothing.
type planNode struct {
	Rows     float64    `json:"Actual Rows"`
	Loops    float64    `json:"Actual Loops"`
	Filtered float64    `json:"Rows Removed by Filter"`
	Unjoined float64    `json:"Rows Removed by Join Filter"`
	Parts    []planNode `json:"Plans"`
}

func (n planNode) touched() float64 {
	sum := n.Loops * (n.Rows + n.Filtered + n.Unjoined)
	for _, part := range n.Parts {
		sum += part.touched()
	}
	return sum
}

// plansOf are the two ways in which the server plans the statements of a function: for these arguments, and for any.
var plansOf = []string{"force_custom_plan", "force_generic_plan"}

// The work of a renewal grows with the number of holds, and not with its square, whether the server plans for these holds or
// for any.
func TestRenewalsGrowWithTheirNumber(t *testing.T) {
	t.Parallel()
	srv := server(t)
	open(t, patientURL(t, srv.Addr))
	fill(t, srv.Addr, 20_000)
	for _, plans := range plansOf {
		for name, work := range map[string]func(holds int) float64{
			"locks": func(holds int) float64 { return renewalWork(t, srv.Addr, plans, "renew_3($1, $2, $3, false)", holds) },
			"shares": func(holds int) float64 {
				return renewalWork(t, srv.Addr, plans, "renew_shares_1($1, $2, $3, array_fill('read'::text, ARRAY[$4::int]), array_fill(0::bigint, ARRAY[$4::int]), false)", holds, holds)
			},
		} {
			few, many := work(100), work(1000)
			t.Logf("%s, %s: %.0f rows for 100 holds, %.0f for 1,000", plans, name, few, many)
			if few < 100 || many > 12*few {
				t.Errorf("%s, %s: %.0f rows for 100 holds, %.0f for 1,000: want at most twelve times as many", plans, name, few, many)
			}
		}
	}
}

// fill makes so many keys that are held, and a queue and readers of each, of which the key q has 500, and s 64.
func fill(t *testing.T, addr string, keys int) {
	t.Helper()
	admin(t, superuser(t, addr), fmt.Sprintf(`
		INSERT INTO coord.locks SELECT convert_to(n::text, 'UTF8'), 'id' || n, 'held', 1, clock_timestamp() + interval '1 hour', true, '1 hour' FROM generate_series(1, %[1]d) AS n;
		INSERT INTO coord.locks SELECT 'q', 'id', 'held', 1, clock_timestamp() + interval '1 hour', true, '1 hour';
		INSERT INTO coord.waiters (key, id, until) SELECT key, 'waiter of ' || id, clock_timestamp() + interval '2 seconds' FROM coord.locks;
		INSERT INTO coord.waiters (key, id, until) SELECT 'q', 'waiter' || n, clock_timestamp() + interval '2 seconds' FROM generate_series(1, 499) AS n;
		INSERT INTO coord.shares SELECT key, 1, '', '-infinity', clock_timestamp() FROM coord.locks;
		INSERT INTO coord.holders SELECT key, id, 1, 'read', 0, 0, 0, false, until, ttl FROM coord.locks;
		INSERT INTO coord.holders SELECT 's', 'id' || n, n, 'permits', 1, 100, n - 1, false, clock_timestamp() + interval '1 hour', '1 hour' FROM generate_series(1, 64) AS n;`, keys))
}

// Each statement looks at a few rows of a hundred thousand, whether the server knows how many there are or not.
func TestStatementsTouchFewRows(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	fill(t, srv.Addr, 100_000)
	for _, known := range []bool{false, true} {
		if known {
			admin(t, superuser(t, srv.Addr), "ANALYZE")
		}
		for _, plans := range plansOf {
			for _, call := range []struct {
				sql  string
				most float64
			}{
				{"coord.take_1('7', 'new', '1 hour', false)", 20},
				{"coord.take_1('new', 'new', '1 hour', false)", 20},
				{"coord.queue_1('8', 'new', '1 hour', '2 seconds')", 20},
				{"coord.queue_1('q', 'new', '1 hour', '2 seconds')", 150},
				{"coord.resume_1('q', 'new', '1 hour', '2 seconds')", 150},
				{"coord.resume_1('9', 'waiter of id9', '1 hour', '2 seconds')", 20},
				{"coord.unlock_2('9', 'id9', '0', true)", 20},
				{"coord.resume_1('9', 'waiter of id9', '1 hour', '2 seconds')", 40},
				{"coord.unlock_2('q', 'waiter77', '0', true)", 20},
				{"coord.share_1('10', 'new', '1 hour', 'read', 0, 0, false)", 40},
				{"coord.share_1('s', 'new', '1 hour', 'permits', 1, 100, false)", 1000},
				{"coord.share_1('s', 'refused', '1 hour', 'permits', 90, 100, true)", 1000},
				{"coord.unshare_1('s', 'new', false)", 20},
			} {
				touched := 0.0
				for live := false; !live; { // on a busy machine all places may be over before they are looked at
					admin(t, superuser(t, srv.Addr), "UPDATE coord.waiters SET until = clock_timestamp() + interval '2 seconds' WHERE key IN ('q', '9')")
					touched = work(t, srv.Addr, plans, "SELECT count(*) FROM "+call.sql)
					const last = "SELECT count(*) > 0 FROM coord.waiters WHERE key = 'q' AND until > clock_timestamp()"
					if err := b.pool.QueryRow(t.Context(), last, pgx.QueryExecModeExec).Scan(&live); err != nil {
						t.Fatal(err)
					}
				}
				if touched == 0 || touched > call.most {
					t.Errorf("%s, %s, analyzed: %v: %.0f rows, want at most %.0f", call.sql, plans, known, touched, call.most)
				}
			}
			admin(t, superuser(t, srv.Addr), `UPDATE coord.locks SET id = 'id9', state = 'held', until = clock_timestamp() + interval '1 hour', ttl = '1 hour', queued = true WHERE key = '9';
				DELETE FROM coord.locks WHERE key = 'new'; DELETE FROM coord.waiters WHERE id = 'new'; DELETE FROM coord.holders WHERE id = 'new';
				INSERT INTO coord.waiters (key, id, until) SELECT '9', 'waiter of id9', clock_timestamp() + interval '2 seconds' ON CONFLICT DO NOTHING;
				INSERT INTO coord.waiters (key, id, until) SELECT 'q', 'waiter77', clock_timestamp() + interval '2 seconds'`)
		}
	}
}

// renewalWork counts the rows that the steps of a renewal of so many holds touch.
func renewalWork(t *testing.T, addr, plans, call string, holds int, more ...any) float64 {
	t.Helper()
	var keys [][]byte
	var ids []string
	var ttls []time.Duration
	for i := range holds {
		keys, ids, ttls = append(keys, fmt.Append(nil, i+1)), append(ids, fmt.Sprint("id", i+1)), append(ttls, 2*time.Hour)
	}
	return work(t, addr, plans, fmt.Sprintf("SELECT 1 / (count(with_token) = %d)::int FROM coord.%s", holds, call), append([]any{keys, ids, ttls}, more...)...)
}

// work counts the rows that the steps of a call touch, as the server tells in its log.
func work(t *testing.T, addr, plans, call string, args ...any) (rows float64) {
	t.Helper()
	config := must[*pgx.ConnConfig](t)(pgx.ParseConfig(superuser(t, addr)))
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		_, text, isPlan := strings.Cut(n.Message, "plan:")
		var plan struct {
			Plan planNode
		}
		if !isPlan {
			return
		}
		if err := json.Unmarshal([]byte(text), &plan); err != nil {
			t.Error(err)
		}
		rows += plan.Plan.touched()
	}
	conn := must[*pgx.Conn](t)(pgx.ConnectConfig(t.Context(), config))
	defer conn.Close(t.Context())
	_, err := conn.Exec(t.Context(), `LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on;
		SET auto_explain.log_nested_statements = on; SET auto_explain.log_format = json; SET client_min_messages = log;
		SET plan_cache_mode = `+plans, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := conn.QueryRow(t.Context(), call, append([]any{pgx.QueryExecModeExec}, args...)...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	return rows
}
