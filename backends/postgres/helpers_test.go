package postgres

import (
	"context"
	"crypto/rand"
	"errors"
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
	goleak.VerifyTestMain(everybody.Main(m))
}

// appUser has no more rights than a client needs.
const appUser = "app"

// everybody is the server of all tests that disturb nobody.
var everybody testserver.Shared

// server gives that server, with a database of the test's own: what is set there, and who is told of there, is no other
// test's.
func server(t testing.TB) *testserver.Server {
	t.Helper()
	srv := everybody.Use(t, start)
	makeDatabase(t, srv.Addr)
	t.Cleanup(func() {
		admin(t, testserver.PostgresURL(testserver.PostgresUser, srv.Addr), "DROP DATABASE "+testserver.NameOf(t)+" WITH (FORCE)")
	})
	return srv
}

// ownServer is such a server for this test alone.
func ownServer(t testing.TB) *testserver.Server {
	t.Helper()
	srv := start(t)
	makeDatabase(t, srv.Addr)
	return srv
}

// start starts a server with a database to be copied: it has the tables, which a user may only use.
func start(t testing.TB) *testserver.Server {
	t.Helper()
	srv := testserver.Postgres(t)
	super := testserver.PostgresURL(testserver.PostgresUser, srv.Addr)
	admin(t, super, "CREATE ROLE app LOGIN")
	admin(t, super, "CREATE DATABASE ready")
	admin(t, databaseURL(testserver.PostgresUser, srv.Addr, "ready"), schema(t)+`
		GRANT USAGE ON SCHEMA coord TO app;
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA coord TO app;`)
	return srv
}

func makeDatabase(t testing.TB, addr string) {
	t.Helper()
	admin(t, testserver.PostgresURL(testserver.PostgresUser, addr), "CREATE DATABASE "+testserver.NameOf(t)+" TEMPLATE ready")
}

func databaseURL(user, addr, database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", user, addr, database)
}

// urlOf names the test's own database to a user.
func urlOf(t testing.TB, user, addr string) string {
	return databaseURL(user, addr, testserver.NameOf(t))
}

// superuser is the URL for what a client may not do.
func superuser(t testing.TB, addr string) string { return urlOf(t, testserver.PostgresUser, addr) }

// appURL is one without parameters.
func appURL(t testing.TB, addr string) string {
	return fmt.Sprintf("postgres://%s@%s/%s", appUser, addr, testserver.NameOf(t))
}

// set changes a setting of all sessions that begin after that.
func set(t testing.TB, addr, setting string) {
	t.Helper()
	admin(t, superuser(t, addr), "ALTER DATABASE "+testserver.NameOf(t)+" SET "+setting)
}

// admin runs statements as the user of a URL.
func admin(tb interface{ Fatalf(string, ...any) }, url, sql string) {
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		tb.Fatalf("connect to %s: %v", url, err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// hung is from when on a call that should end is held not to: much longer than a machine under load is late.
const hung = time.Minute

// patientURL gives each statement time enough on a busy machine.
func patientURL(t testing.TB, addr string) string {
	return fmt.Sprintf("%s&timeout=%v", urlOf(t, appUser, addr), maxTimeout)
}

// openIn opens a store, which the caller closes.
func openIn(tb interface{ Fatalf(string, ...any) }, text string) *backend {
	u, err := url.Parse(text)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	var b driver.Backend
	err = answered(func() (err error) {
		b, err = Open(context.Background(), u)
		return err
	})
	if err != nil {
		tb.Fatalf("Open: %v", err)
	}
	return b.(*backend)
}

// answered repeats a call until it is answered, or fails otherwise than by its time: a store gives each 5 s at most.
func answered(call func() error) (err error) {
	for start := time.Now(); time.Since(start) < hung; {
		err = call()
		if !errors.Is(err, context.DeadlineExceeded) && !contains(err, "no answer in time") {
			break
		}
	}
	return err
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

// unswept gives b, whose grants sweep nothing from then on: for tests that count statements or connections.
func unswept(b *backend) *backend {
	b.sweeping.Store(true)
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
	conn := must[*pgx.Conn](t)(pgx.Connect(t.Context(), databaseURL(testserver.PostgresUser, fmt.Sprintf("%s:%d", c.Host, c.Port), c.Database)))
	defer conn.Close(context.WithoutCancel(t.Context()))
	for blocked := 0; blocked < statements; time.Sleep(time.Millisecond) {
		err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = $1 AND datname = current_database()", appUser).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
	}
}
