package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain()
	goleak.VerifyTestMain(m)
}

// appUser has no more rights than a client needs.
const appUser = "app"

// server starts a server with the tables, and with a user who may only use them.
func server(t testing.TB) *testserver.Server {
	t.Helper()
	srv := testserver.Postgres(t)
	admin(t, srv.Addr, schema(t)+`
		CREATE ROLE app LOGIN;
		GRANT USAGE ON SCHEMA coord TO app;
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA coord TO app;`)
	return srv
}

// admin runs statements as the superuser.
func admin(tb interface{ Fatalf(string, ...any) }, addr, sql string) {
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	conn, err := pgx.Connect(ctx, testserver.PostgresURL(testserver.PostgresUser, addr))
	if err != nil {
		tb.Fatalf("connect as the superuser: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// hung is from when on a call that should end is held not to: much longer than a machine under load is late.
const hung = 30 * time.Second

// patientURL gives each statement time enough on a busy machine.
func patientURL(addr string) string {
	return fmt.Sprintf("%s&timeout=%v", testserver.PostgresURL(appUser, addr), maxTimeout)
}

// openIn opens a store, which the caller closes.
func openIn(tb interface{ Fatalf(string, ...any) }, text string) *backend {
	u, err := url.Parse(text)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	b, err := Open(context.Background(), u)
	if err != nil {
		tb.Fatalf("Open: %v", err)
	}
	return b.(*backend)
}

// open opens a store and closes it with the test.
func open(t testing.TB, text string) *backend {
	t.Helper()
	b := openIn(t, text)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func request(name string, ttl time.Duration) driver.Request {
	var random [16]byte
	rand.Read(random[:])
	return driver.Request{ID: driver.FormatID(name, os.Getpid(), time.Now(), random), TTL: ttl}
}

// schema is the SQL that makes the tables.
func schema(t testing.TB) string {
	t.Helper()
	text, err := Schema(DefaultSchema)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// untilBlocked returns when so many statements of b's user wait for rows. It asks over a connection of its own.
func untilBlocked(t *testing.T, b *backend, statements int) {
	t.Helper()
	c := b.pool.Config().ConnConfig
	conn := must[*pgx.Conn](t)(pgx.Connect(t.Context(), testserver.PostgresURL(testserver.PostgresUser, fmt.Sprintf("%s:%d", c.Host, c.Port))))
	defer conn.Close(context.WithoutCancel(t.Context()))
	for blocked := 0; blocked < statements; time.Sleep(time.Millisecond) {
		err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = $1", appUser).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
	}
}
