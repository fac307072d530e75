package postgres

import (
	_ "embed"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coordgo/coord/driver"
)

//go:embed testdata/schema-1.sql
var schema1 string

// From version 1 to 2 no key has two holders: clients of version 1 renew and release what they hold, and take nothing more.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	srv := server(t)
	admin(t, superuser(t, srv.Addr), "DROP SCHEMA coord CASCADE;"+schema1)
	old := must[*pgx.Conn](t)(pgx.Connect(t.Context(), superuser(t, srv.Addr)+"&default_query_exec_mode=exec"))
	defer old.Close(t.Context())
	var granted bool
	var token, left int64
	lock := func(id string, waits bool) error {
		return old.QueryRow(t.Context(), "SELECT * FROM coord.lock_1('k', $1, '1 second', $2, '1 hour')", id, waits).Scan(&granted, &token, &left)
	}
	if err := lock("old", false); err != nil || !granted {
		t.Fatalf("granted: %v, %v", granted, err)
	}
	before := token
	if err := lock("waiter", true); err != nil || granted {
		t.Fatalf("granted: %v, %v", granted, err)
	}
	u := must[*url.URL](t)(url.Parse(superuser(t, srv.Addr)))
	if _, err := Open(t.Context(), u); !errors.Is(err, driver.ErrUnsupported) || !contains(err, "version 1, want 2: run what coord schema postgres prints") {
		t.Errorf("Open: %v, want a remedy", err)
	}

	admin(t, superuser(t, srv.Addr), schema(t))
	admin(t, superuser(t, srv.Addr), schema(t)) // changes nothing
	b := open(t, superuser(t, srv.Addr)+"&timeout=5s")
	var key []byte
	var id string
	renewed := "SELECT * FROM coord.renew_2(ARRAY['k'::bytea], ARRAY['old'], ARRAY['1 hour'::interval], $1)"
	for _, waits := range []bool{false, true} {
		if err := old.QueryRow(t.Context(), renewed, waits).Scan(&key, &id, &token, &left); err != nil || token != before {
			t.Errorf("an old client renews: token %d, %v, want %d", token, err, before)
		}
	}
	var locked *driver.LockedError
	if _, err := b.TryLock(t.Context(), "k", request("new", time.Minute)); !errors.As(err, &locked) || locked.Remaining < time.Minute {
		t.Errorf("beside an old holder: %v, want ErrLocked for an hour", err)
	}
	if err := lock("another", false); err == nil || !strings.Contains(err.Error(), "too old") {
		t.Errorf("an old client takes a lock: %v", err)
	}
	var ended bool
	if err := old.QueryRow(t.Context(), "SELECT coord.unlock_1('k', 'old', '0')").Scan(&ended); err != nil || !ended {
		t.Errorf("an old client releases: %v, %v", ended, err)
	}
	if g := mustTry(t, b, "k", request("new", time.Minute)); g.Token <= before {
		t.Errorf("token %d, want above %d", g.Token, before)
	}
}
