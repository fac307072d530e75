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

// The work of a renewal grows with the number of holds, and not with its square, whether the server plans for these holds or
// for any.
func TestRenewalsGrowWithTheirNumber(t *testing.T) {
	t.Parallel()
	srv := server(t)
	open(t, patientURL(t, srv.Addr))
	admin(t, superuser(t, srv.Addr), `INSERT INTO coord.locks
		SELECT convert_to(n::text, 'UTF8'), 'id' || n, 'held', 1, clock_timestamp() + interval '1 hour', false, '1 hour' FROM generate_series(1, 20000) AS n`)
	for _, plans := range []string{"force_custom_plan", "force_generic_plan"} {
		few, many := renewalWork(t, srv.Addr, plans, 100), renewalWork(t, srv.Addr, plans, 1000)
		t.Logf("%s: %.0f rows for 100 holds, %.0f for 1,000", plans, few, many)
		if few < 100 || many > 12*few {
			t.Errorf("%s: %.0f rows for 100 holds, %.0f for 1,000: want at most twelve times as many", plans, few, many)
		}
	}
}

// renewalWork counts the rows that the steps of a renewal of so many holds touch, as the server tells in its log.
func renewalWork(t *testing.T, addr, plans string, holds int) (rows float64) {
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
	var keys [][]byte
	var ids []string
	var ttls []time.Duration
	for i := range holds {
		keys, ids, ttls = append(keys, fmt.Append(nil, i+1)), append(ids, fmt.Sprint("id", i+1)), append(ttls, 2*time.Hour)
	}
	var renewed int
	_, call, _ := strings.Cut(newStatements(DefaultSchema).renew, " FROM ")
	query := "SELECT count(with_token) FROM " + call
	if err := conn.QueryRow(t.Context(), query, pgx.QueryExecModeExec, keys, ids, ttls, false).Scan(&renewed); err != nil || renewed != holds {
		t.Fatalf("%d of %d are renewed, %v", renewed, holds, err)
	}
	return rows
}
