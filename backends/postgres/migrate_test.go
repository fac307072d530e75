package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// Who only looks at a database leaves it as it is. The first call that writes makes the tables.
func TestLookingMakesNoTables(t *testing.T) {
	t.Parallel()
	srv := server(t)
	admin(t, superuser(t, srv.Addr), "DROP SCHEMA coord CASCADE")
	b := open(t, superuser(t, srv.Addr)+"&timeout=5s")
	if _, err := b.Inspect(t.Context(), "k"); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Inspect: %v, want ErrNotHeld", err)
	}
	for key, err := range b.List(t.Context(), "") {
		t.Errorf("List gives %q, %v", key, err)
	}
	if live, err := b.Shared().Holders(t.Context(), "k"); err != nil || len(live) > 0 {
		t.Errorf("Holders: %v, %v", live, err)
	}
	limit := must[driver.Limit](t)(driver.Limit{Rate: 1, Per: time.Hour}.Normal())
	if _, err := b.TakeOne(t.Context(), "k", limit, driver.Ask{}); err != nil {
		t.Errorf("a look at a limit: %v", err)
	}
	for name, call := range map[string]func() error{
		"Unlock": func() error { return b.Unlock(t.Context(), "k", request("a", time.Hour).ID) },
		"Break":  func() error { return b.Break(t.Context(), "k", request("a", time.Hour).ID) },
		"Renew":  func() error { _, err := b.Renew(t.Context(), "k", request("a", time.Hour)); return err },
	} {
		if err := call(); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("%s: %v, want ErrNotHeld", name, err)
		}
	}
	if _, err := b.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	var is bool
	there := func() bool {
		if err := b.pool.QueryRow(t.Context(), "SELECT to_regnamespace('coord') IS NOT NULL").Scan(&is); err != nil {
			t.Fatal(err)
		}
		return is
	}
	if there() {
		t.Error("the schema was made by calls that only look")
	}
	mustTry(t, b, "k", request("a", time.Hour))
	if !there() {
		t.Error("the lock is in no schema")
	}
}
