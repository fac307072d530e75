package postgres

import (
	_ "embed"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/holders"
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
		return old.QueryRow(t.Context(), "SELECT * FROM coord.lock_1('k', $1, '10 minutes', $2, '1 hour')", id, waits).Scan(&granted, &token, &left)
	}
	if err := lock("old", false); err != nil || !granted {
		t.Fatalf("granted: %v, %v", granted, err)
	}
	before := token
	if err := lock("waiter", true); err != nil || granted {
		t.Fatalf("granted: %v, %v", granted, err)
	}
	held, reader := request("permit", time.Hour), request("reader", time.Hour)
	var record holders.Record
	now := time.Now()
	held.Share = driver.Share{Mode: driver.Permits, Weight: 2, Of: 3}
	rules := holders.Rules{MaxHolders: 64, ClockTokens: true}
	grant := must[driver.Grant](t)(record.TryLock(held, now, rules))
	if err := record.Break(held.ID, now, rules); err != nil {
		t.Fatal(err)
	}
	held.ID += "2"
	held.Share.Weight = 1
	grant = must[driver.Grant](t)(record.TryLock(held, now, rules))
	must[pgconn.CommandTag](t)(old.Exec(t.Context(), "SELECT coord.swap_2('shared', 'k', '', 0, 1, $1, '1 hour', '-infinity', 'infinity')", record.Append(nil)))
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
	if _, err := b.TryLock(t.Context(), "k", request("new", time.Minute)); !errors.As(err, &locked) || locked.Remaining < 30*time.Minute {
		t.Errorf("beside an old holder: %v, want ErrLocked for an hour", err)
	}
	if err := lock("another", false); err == nil || !strings.Contains(err.Error(), "too old") {
		t.Errorf("an old client takes a lock: %v", err)
	}
	var ended bool
	if err := old.QueryRow(t.Context(), "SELECT coord.unlock_1('k', 'old', '0')").Scan(&ended); err != nil || !ended {
		t.Errorf("an old client releases: %v, %v", ended, err)
	}
	live := must[[]driver.Holder](t)(b.Shared().Holders(t.Context(), "k"))
	want := record.Live(now)
	for i := range live {
		if live[i].TTL > held.TTL || live[i].TTL < held.TTL-hung {
			t.Errorf("%v are left of %v", live[i].TTL, held.TTL)
		}
		live[i].TTL = want[i].TTL
	}
	if !reflect.DeepEqual(live, want) {
		t.Errorf("those who share a key: %+v, want %+v", live, want)
	}
	reader.Share = driver.Share{Mode: driver.Permits, Weight: 1, Of: 3}
	if _, err := b.Shared().TryLock(t.Context(), "k", reader); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("a fourth of three permits: %v, want ErrLocked", err)
	}
	if g, err := b.Shared().Renew(t.Context(), "k", held); err != nil || g.Token != grant.Token {
		t.Errorf("Renew: %+v, %v, want token %d", g, err, grant.Token)
	}
	if _, err := old.Exec(t.Context(), "SELECT coord.swap_2('shared', 'k', '', 0, 1, '', '1 hour', '-infinity', 'infinity')"); !contains(err, "too old") {
		t.Errorf("an old client takes a permit: %v", err)
	}
	if g := mustTry(t, b, "k", request("new", time.Minute)); g.Token <= before {
		t.Errorf("token %d, want above %d", g.Token, before)
	}
}
