package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// rowLock keeps the row of a key locked, as a transaction of somebody else does, until release is called.
func rowLock(t *testing.T, addr, key string) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), superuser(t, addr))
	if err != nil {
		t.Fatal(err)
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM coord.locks WHERE key = $1 FOR UPDATE", []byte(key)); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := errors.Join(tx.Rollback(context.Background()), conn.Close(context.Background())); err != nil {
			t.Error(err)
		}
	}
}

func mustTry(t *testing.T, b driver.Locker, key string, r driver.Request) driver.Grant {
	t.Helper()
	g, err := b.TryLock(t.Context(), key, r)
	if err != nil {
		t.Fatalf("TryLock of %s: %v", key, err)
	}
	return g
}

// behindARow gives a backend with one connection, and a hold whose row is locked until release.
func behindARow(t *testing.T) (b *backend, r driver.Request, release func()) {
	t.Helper()
	srv := server(t)
	b = unswept(open(t, patientURL(t, srv.Addr)+"&pool_size=1"))
	r = request("a", time.Minute)
	mustTry(t, b, "k", r)
	return b, r, rowLock(t, srv.Addr, "k")
}

// A statement outlives its caller, and its connection too.
func TestCancelledCallKeepsItsConnection(t *testing.T) {
	t.Parallel()
	b, r, release := behindARow(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan error, 1)
	go func() {
		_, err := b.TryLock(ctx, "k", r)
		asked <- err
	}()
	untilBlocked(t, b, 1)
	cancel()
	if err := <-asked; !errors.Is(err, context.Canceled) || driver.Definite(err) {
		t.Errorf("TryLock of a row that is locked: %v, want an unknown outcome", err)
	}
	release()
	if err := answered(func() error { _, err := b.Renew(t.Context(), "k", r); return err }); err != nil {
		t.Errorf("Renew after that: %v", err)
	}
	if n := b.pool.Stat().NewConnsCount(); n != 1 {
		t.Errorf("%d connections were made, want 1", n)
	}
}

// A caller that goes while it waits for a connection has sent nothing.
func TestWaitForAConnectionIsDefinite(t *testing.T) {
	t.Parallel()
	b, r, release := behindARow(t)
	asked := make(chan error, 1)
	go func() {
		_, err := b.TryLock(context.WithoutCancel(t.Context()), "k", r)
		asked <- err
	}()
	untilBlocked(t, b, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := b.Unlock(ctx, "k", r.ID); !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Unlock without a connection: %v, want ErrNotSent", err)
	}
	release()
	if err := <-asked; err != nil {
		t.Errorf("TryLock again: %v", err)
	}
	if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}

// After a restart the pool has dead connections. None is used.
func TestRestart(t *testing.T) {
	t.Parallel()
	srv := ownServer(t)
	b := open(t, patientURL(t, srv.Addr))
	r := request("a", time.Hour)
	before := mustTry(t, b, "k", r)
	var wg sync.WaitGroup
	for range 4 { // some connections
		wg.Go(func() { _ = b.Ping(t.Context()) })
	}
	wg.Wait()
	srv.Restart()
	for range 4 {
		if g, err := b.Renew(t.Context(), "k", r); err != nil || g.Token != before.Token {
			t.Errorf("Renew after a restart: token %d, %v, want %d", g.Token, err, before.Token)
		}
	}
}

// The server ends sessions when it is told to stop; those who wait for it do not know what became of their statements.
func TestTerminatedSession(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	r := request("a", time.Minute)
	mustTry(t, b, "k", r)
	release := rowLock(t, srv.Addr, "k")
	defer release()
	renewed := make(chan error, 1)
	go func() {
		_, err := b.Renew(context.WithoutCancel(t.Context()), "k", r)
		renewed <- err
	}()
	for done := false; !done; {
		select {
		case err := <-renewed:
			if err == nil || driver.Definite(err) {
				t.Errorf("Renew in a session that was ended: %v, want an unknown outcome", err)
			}
			done = true
		case <-time.After(time.Millisecond):
			admin(t, superuser(t, srv.Addr), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app' AND datname = current_database() AND wait_event_type = 'Lock'")
		}
	}
}

// The server undoes what takes too long.
func TestStatementTimeout(t *testing.T) {
	t.Parallel()
	srv := server(t)
	set(t, srv.Addr, "statement_timeout = '2s'")
	b := open(t, patientURL(t, srv.Addr))
	r := request("a", time.Minute)
	mustTry(t, b, "k", r)
	release := rowLock(t, srv.Addr, "k")
	if err := b.Unlock(t.Context(), "k", r.ID); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("Unlock of a row that is locked: %v, want ErrNotSent", err)
	}
	release()
	if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}

// Over a pool of one connection, whose sessions are serializable, many callers get on.
func TestPoolOfOne(t *testing.T) {
	t.Parallel()
	srv := server(t)
	set(t, srv.Addr, "default_transaction_isolation = 'serializable'")
	one := open(t, patientURL(t, srv.Addr)+"&pool_size=1")
	two := open(t, patientURL(t, srv.Addr)+"&pool_size=1")
	var wg sync.WaitGroup
	for i := range 16 {
		b := []*backend{one, two}[i%2]
		wg.Go(func() {
			for n := range 8 {
				r := request("a", time.Minute)
				_, err := b.TryLock(t.Context(), fmt.Sprint(n), r)
				if err == nil {
					err = b.Unlock(t.Context(), fmt.Sprint(n), r.ID)
				}
				if err != nil && !errors.Is(err, driver.ErrLocked) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// Clients that renew the same leases in different orders never deadlock.
func TestRenewAllInOneOrder(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	var holds []driver.Hold
	for i := range 50 {
		h := driver.Hold{Key: fmt.Sprint(i), Request: request("a", time.Minute)}
		mustTry(t, b, h.Key, h.Request)
		holds = append(holds, h)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		mine := slices.Clone(holds)
		if i%2 == 1 {
			slices.Reverse(mine)
		}
		mine = append(mine, driver.Hold{Key: "0", Request: request("another", time.Minute)})
		wg.Go(func() {
			for range 20 {
				for n, a := range b.RenewAll(t.Context(), mine) {
					locked := errors.Is(a.Err, driver.ErrNotSent) || errors.Is(a.Err, context.DeadlineExceeded) // by one of the others
					if n < len(holds) && a.Err != nil && !locked || n == len(holds) && a.Err != driver.ErrNotHeld {
						t.Errorf("renewal of %s: %v", mine[n].Key, a.Err)
					}
				}
			}
		})
	}
	wg.Wait()
	var deadlocks int
	if err := b.pool.QueryRow(t.Context(), "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&deadlocks); err != nil || deadlocks > 0 {
		t.Errorf("%d deadlocks, %v", deadlocks, err)
	}
}

// Over a pool that prepares nothing nothing depends on the session, so that a pooler can give each transaction another one.
func TestStatementsArePreparedAsThePoolDoes(t *testing.T) {
	t.Parallel()
	srv := server(t)
	for mode, want := range map[string]bool{"cache_statement": true, "cache_describe": false, "describe_exec": false, "exec": false, "simple_protocol": false} {
		t.Run(mode, func(t *testing.T) { testPrepared(t, srv.Addr, mode, want) })
	}
	u := patientURL(t, srv.Addr) + "&pool_size=1"
	for prepared, want := range map[string]bool{"": false, "&prepared=false": false, "&prepared=true": true} {
		b := open(t, u+prepared)
		mustTry(t, b, "url"+prepared, request("a", time.Minute))
		wantPrepared(t, b, want)
	}
}

// wantPrepared looks whether the one session of the pool has prepared statements.
func wantPrepared(t *testing.T, b *backend, want bool) {
	t.Helper()
	var prepared int
	err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_statements", pgx.QueryExecModeExec).Scan(&prepared)
	if err != nil || prepared > 0 != want {
		t.Errorf("%d statements are prepared, %v: want some: %v", prepared, err, want)
	}
}

func testPrepared(t *testing.T, addr, mode string, want bool) {
	config, err := pgxpool.ParseConfig(fmt.Sprintf("%s?pool_max_conns=1&default_query_exec_mode=%s", appURL(t, addr), mode))
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	opened, err := New(pool, WithTimeout(maxTimeout))
	if err != nil {
		t.Fatal(err)
	}
	b := opened.(*backend)
	r := request("a", time.Minute)
	mustTry(t, b, "k", r)
	for _, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Error(err)
		}
	}
	for _, a := range b.RenewAll(t.Context(), []driver.Hold{{Key: "k", Request: r}}) {
		if a.Err != nil {
			t.Error(a.Err)
		}
	}
	if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Error(err)
	}
	wantPrepared(t, b, want)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the application's pool after Close: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	srv := server(t)
	admin(t, superuser(t, srv.Addr), "CREATE SCHEMA newer; CREATE TABLE newer.version AS SELECT 99 AS version; GRANT USAGE ON SCHEMA newer TO app; GRANT SELECT ON newer.version TO app")
	at := appURL(t, srv.Addr)
	for text, want := range map[string]struct {
		is   error
		text string
	}{
		at + "?schema=newer":                {driver.ErrUnsupported, "version 99"},
		at + "?schema=none":                 {driver.ErrNotSent, ": schema none lacks tables or functions: run what coord schema postgres"},
		at + "?schema=No":                   {driver.ErrInvalid, "schema"},
		at + "?schema=pg_x":                 {driver.ErrInvalid, "not pg_ in front"},
		at + "?schema=user":                 {driver.ErrInvalid, "want another name"},
		at + "?nonsense=1":                  {driver.ErrInvalid, "nonsense"},
		at + "?pool_size=0":                 {driver.ErrInvalid, "pool_size"},
		at + "none":                         {driver.ErrNotSent, "no such database"},
		"postgres://app@127.0.0.1:1/db":     {driver.ErrNotSent, "nothing listens there"},
		"postgres://app@127.0.0.1:1/":       {driver.ErrInvalid, "want a database"},
		"postgres://app@127.0.0.1:1":        {driver.ErrInvalid, "want a database"},
		at + "?sslmode=require":             {driver.ErrNotSent, "the server has no TLS: set ssl = on there, or sslmode=disable"},
		"postgres://a:s3cret@127.0.0.1:1/x": {driver.ErrNotSent, "nothing listens there"},
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), u)
		if !errors.Is(err, want.is) || !strings.Contains(fmt.Sprint(err), want.text) || strings.ContainsAny(fmt.Sprint(err), "\n\t") || strings.Contains(fmt.Sprint(err), "s3cret") {
			t.Errorf("%s: %q, want %v with %q in one line", text, err, want.is, want.text)
		}
	}
	u := must[*url.URL](t)(url.Parse(at))
	for setting, value := range map[string]string{"synchronous_commit": "off", "client_min_messages": "error"} {
		set(t, srv.Addr, setting+" = "+value)
		if _, err := Open(t.Context(), u); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), setting) {
			t.Errorf("with %s = %s: %v, want ErrUnsupported", setting, value, err)
		}
		admin(t, superuser(t, srv.Addr), "ALTER DATABASE "+testserver.NameOf(t)+" RESET "+setting)
	}
}

// Whoever has taken the tables away is told of in words.
func TestTablesAreGone(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	admin(t, superuser(t, srv.Addr), "DROP SCHEMA coord CASCADE")
	if _, err := b.TryLock(t.Context(), "k", request("a", time.Minute)); !errors.Is(err, driver.ErrNotSent) || !strings.Contains(err.Error(), "the tables are gone") {
		t.Errorf("TryLock: %v, want ErrNotSent that says so", err)
	}
	admin(t, superuser(t, srv.Addr), schema(t))
	admin(t, superuser(t, srv.Addr), schema(t)) // changes nothing
	if _, err := Schema("no schema"); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Schema of a name with a space: %v, want ErrInvalid", err)
	}
}

// Renewals of holds whose rows stay locked, again and again, leave most connections to others.
func TestLockedRowsLeaveConnections(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := unswept(open(t, patientURL(t, srv.Addr)+"&pool_size=10"))
	var holds []driver.Hold
	for i := range 5 {
		holds = append(holds, driver.Hold{Key: fmt.Sprint(i), Request: request("a", time.Hour)})
		mustTry(t, b, holds[i].Key, holds[i].Request)
		if i > 0 {
			defer rowLock(t, srv.Addr, holds[i].Key)()
		}
	}
	for range 10 {
		if answers := b.RenewAll(t.Context(), holds); answers[0].Err != nil {
			t.Fatalf("renewal of the hold whose row is not locked: %v", answers[0].Err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := b.Renew(ctx, holds[1].Key, holds[1].Request); err == nil || errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("renewal of a hold whose row is locked: %v", err)
		}
		cancel()
		if n := b.pool.Stat().AcquiredConns(); n > 3 { // the two that wait, and one that is given back
			t.Fatalf("%d connections are in use, want 2 for those that wait", n)
		}
	}
}

// A statement that waits for a row for too long costs its own connection, and none of the others.
func TestLateStatementCostsOneConnection(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := unswept(open(t, appURL(t, srv.Addr)+"?pool_size=10"))
	stuck, free := request("a", time.Hour), request("b", time.Hour)
	mustTry(t, b, "stuck", stuck)
	mustTry(t, b, "free", free)
	defer rowLock(t, srv.Addr, "stuck")()
	const lates, others = 2, 3
	for clean := false; !clean; { // on a busy machine another statement may be late, too
		idle := connect(t, b, lates+others)
		clean = true
		for range lates {
			if err := b.Unlock(t.Context(), "stuck", stuck.ID); err == nil || errors.Is(err, driver.ErrNotHeld) {
				t.Fatalf("Unlock of a hold whose row is locked: %v", err)
			}
			_, err := b.Renew(t.Context(), "free", free)
			clean = clean && err == nil
		}
		if left := connect(t, b, lates+others); clean {
			left = slices.DeleteFunc(left, func(pid uint32) bool { return !slices.Contains(idle, pid) })
			if len(left) < others {
				t.Errorf("%d connections are left of %d after %d late statements", len(left), len(idle), lates)
			}
		}
	}
}

// A connection that is longer in the making than calls wait for one serves the calls after. If it were given up, a server to
// which many connect at once would never get on.
func TestSlowConnectionIsMade(t *testing.T) {
	t.Parallel()
	b, link := conformance.TCPFaults(server(t).Addr, func(tb conformance.TB, addr string) driver.Backend {
		return openIn(tb, appURL(t, addr)+"?timeout=500ms")
	}).Link(t)
	defer b.Close()
	r := request("a", time.Hour)
	link.Reset()
	link.Delay(300 * time.Millisecond) // of each answer: sslmode=prefer needs two for a connection
	for deadline := time.Now().Add(hung); ; {
		_, err := b.TryLock(t.Context(), "k", r)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("TryLock: %v", err)
		}
	}
}

// A statement that is late keeps its connection for a while after its caller has gone.
func TestLateStatementKeepsItsConnection(t *testing.T) {
	t.Parallel()
	srv := server(t)
	const timeout = 1500 * time.Millisecond
	b := unswept(open(t, fmt.Sprintf("%s?timeout=%v", appURL(t, srv.Addr), timeout)))
	r := request("a", time.Hour)
	mustTry(t, b, "k", r)
	for {
		before, began := b.pool.Stat().NewConnsCount(), time.Now()
		release := rowLock(t, srv.Addr, "k")
		if _, err := b.Renew(t.Context(), "k", r); err == nil || errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("renewal of a hold whose row is locked: %v", err)
		}
		release()
		for b.pool.Stat().AcquiredConns() > 0 {
			pause(time.Millisecond)
		}
		if time.Since(began) < patience*timeout { // else the machine was too slow for one
			if n := b.pool.Stat().NewConnsCount() - before; n > 0 || b.pool.Stat().TotalConns() == 0 {
				t.Errorf("%d connections were made, and %d are left", n, b.pool.Stat().TotalConns())
			}
			return
		}
	}
}

// connect uses n connections of b at a time, and names their sessions.
func connect(t *testing.T, b *backend, n int) (sessions []uint32) {
	t.Helper()
	for range n {
		c := must[*pgxpool.Conn](t)(b.pool.Acquire(t.Context()))
		defer c.Release()
		sessions = append(sessions, c.Conn().PgConn().PID())
	}
	return sessions
}

// Of several hosts the one that stops taking writes is left.
func TestReadOnlyHostIsLeft(t *testing.T) {
	t.Parallel()
	first, second := ownServer(t), ownServer(t)
	b := open(t, fmt.Sprintf("%s?timeout=%v", appURL(t, first.Addr+","+second.Addr), maxTimeout))
	mustTry(t, b, "k", request("a", time.Hour))
	admin(t, superuser(t, first.Addr), "ALTER SYSTEM SET default_transaction_read_only = on")
	admin(t, superuser(t, first.Addr), "SELECT pg_reload_conf()")
	refused := false
	for start := time.Now(); time.Since(start) < hung; {
		_, err := b.TryLock(t.Context(), rand.Text(), request("a", time.Hour))
		if err == nil && refused {
			return // by the second one
		}
		refused = refused || contains(err, "use the address of the primary")
	}
	t.Errorf("the first host refused: %v, and the second one has not granted", refused)
}

// A row that somebody else's transaction has locked keeps no other hold from its renewal.
func TestLockedRowHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := unswept(open(t, patientURL(t, srv.Addr)))
	var holds []driver.Hold
	for i := range 1000 {
		holds = append(holds, driver.Hold{Key: fmt.Sprint(i), Request: request("a", time.Hour)})
	}
	admin(t, superuser(t, srv.Addr), "INSERT INTO coord.locks SELECT convert_to(n::text, 'UTF8'), '', 'held', 1, clock_timestamp() + interval '1 hour', false, '1 hour' FROM generate_series(0, 999) AS n")
	for i := range holds {
		holds[i].ID = holds[0].ID
	}
	admin(t, superuser(t, srv.Addr), fmt.Sprintf("UPDATE coord.locks SET id = '%s'", holds[0].ID))
	const locked = 500
	release := rowLock(t, srv.Addr, holds[locked].Key)
	holds = append(holds, driver.Hold{Key: "none", Request: request("a", time.Hour)})
	for i, a := range b.RenewAll(t.Context(), holds) {
		switch i {
		case locked:
			if a.Err == nil || errors.Is(a.Err, driver.ErrNotHeld) {
				t.Errorf("renewal of the hold whose row is locked: %v, want an error that leaves it open", a.Err)
			}
		case len(holds) - 1:
			if !errors.Is(a.Err, driver.ErrNotHeld) {
				t.Errorf("renewal of nothing: %v, want ErrNotHeld", a.Err)
			}
		default:
			if a.Err != nil || a.Grant.TTL < time.Hour {
				t.Fatalf("renewal of %s: %+v", holds[i].Key, a)
			}
		}
	}
	release()
	for deadline := time.Now().Add(hung); ; pause(5 * time.Millisecond) {
		answers := b.RenewAll(t.Context(), holds[locked:locked+2])
		late := errors.Is(answers[0].Err, driver.ErrNotSent) && time.Now().Before(deadline)
		if err := answers[0].Err; err != nil && !late {
			t.Errorf("renewal when the row is free again: %v", err)
		}
		if err := answers[1].Err; err != nil {
			t.Errorf("renewal of the next hold: %v", err)
		}
		if !late { // the renewal from before has left the row
			return
		}
	}
}

// What speaks as PostgreSQL and is not, and what is too old, is refused: the tests have shown nothing of them.
func TestOpenRefusesOtherServers(t *testing.T) {
	t.Parallel()
	srv := server(t)
	admin(t, superuser(t, srv.Addr), `CREATE SCHEMA fake; GRANT USAGE ON SCHEMA fake TO app;
		CREATE FUNCTION fake.current_setting(text) RETURNS text LANGUAGE sql AS
			$$ SELECT CASE $1 WHEN 'server_version_num' THEN coalesce(pg_catalog.current_setting('fake.number', true), '150001') ELSE pg_catalog.current_setting($1) END $$;
		CREATE FUNCTION fake.version() RETURNS text LANGUAGE sql AS $$ SELECT pg_catalog.current_setting('fake.version') $$`)
	set(t, srv.Addr, "search_path = fake, pg_catalog")
	u := must[*url.URL](t)(url.Parse(patientURL(t, srv.Addr)))
	for version, want := range map[string]struct{ number, text string }{
		"CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu)":       {"150001", "CockroachDB"},
		"PostgreSQL 15.12-YB-2025.1.0.1-b3 on x86_64, 64-bit": {"150012", "YugabyteDB"},
		"PostgreSQL 13.14 on x86_64, 64-bit":                  {"130014", "PostgreSQL 14 or later"},
	} {
		set(t, srv.Addr, "fake.version = '"+version+"'")
		set(t, srv.Addr, "fake.number = "+want.number)
		if _, err := Open(t.Context(), u); !errors.Is(err, driver.ErrUnsupported) || !contains(err, want.text) {
			t.Errorf("%s: %v, want ErrUnsupported that says %q", version, err, want.text)
		}
	}
	set(t, srv.Addr, "fake.version = 'PostgreSQL 14.1 on x86_64, 64-bit'")
	set(t, srv.Addr, "fake.number = 140001")
	if err := must[driver.Backend](t)(Open(t.Context(), u)).Close(); err != nil {
		t.Error(err)
	}
}
