package postgres

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/doctor"
	"github.com/coordgo/coord/internal/testserver"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	levels := func() map[string]driver.Level {
		found, err := b.Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		levels := map[string]driver.Level{}
		for _, f := range found {
			levels[f.Name] = f.Level
			if (f.Remedy == "") != (f.Level == driver.LevelOK) {
				t.Errorf("%+v: want a remedy if and only if something is wrong", f)
			}
		}
		return levels
	}
	for name, level := range levels() {
		if level != driver.LevelOK {
			t.Errorf("%s of a good server: %s", name, level)
		}
	}
	settings, err := b.Describe(t.Context())
	if err != nil || settings["topology"] != "1 server" || settings["fsync"] != "on" {
		t.Errorf("Describe: %v, %v", settings, err)
	}
	for name, tt := range map[string]struct {
		told  told
		level driver.Level
	}{
		"durability":  {told{fsync: "off", pages: "on", commit: "on"}, driver.LevelFail},
		"replication": {told{replicas: 1}, driver.LevelWarn},
		"connections": {told{connections: 100, used: 90}, driver.LevelWarn},
		"vacuum":      {told{autovacuum: "off"}, driver.LevelWarn},
	} {
		var r doctor.Report
		tt.told.judge(&r)
		i := slices.IndexFunc(r.Findings, func(f driver.Finding) bool { return f.Name == name })
		if i < 0 || r.Findings[i].Level != tt.level || r.Findings[i].Remedy == "" {
			t.Errorf("%s of a bad server: %+v, want %s and its remedy", name, r.Findings, tt.level)
		}
	}
}

// A user who may not see the sessions of others is told how many there are.
func TestCheckCountsSessionsOfOthers(t *testing.T) {
	t.Parallel()
	srv := server(t)
	const others = 5
	for range others {
		conn := must[*pgx.Conn](t)(pgx.Connect(t.Context(), urlOf(t, testserver.PostgresUser, srv.Addr)))
		defer conn.Close(context.WithoutCancel(t.Context()))
	}
	if s := must[told](t)(open(t, patientURL(t, srv.Addr)).tell(t.Context())); s.used <= others {
		t.Errorf("%d sessions, want more than the %d of another user", s.used, others)
	}
}

// A server whose functions are of another version of coord, or were taken away, is told of in words.
func TestFunctionsAreGone(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	admin(t, superuser(t, srv.Addr), "ALTER FUNCTION coord.take_1 RENAME TO take_0")
	if _, err := b.TryLock(t.Context(), "k", request("a", time.Minute)); !errors.Is(err, driver.ErrNotSent) || !strings.Contains(err.Error(), "the functions are gone") {
		t.Errorf("TryLock: %v, want ErrNotSent that says so", err)
	}
	u := must[*url.URL](t)(url.Parse(patientURL(t, srv.Addr)))
	if _, err := Open(t.Context(), u); !errors.Is(err, driver.ErrNotSent) || !strings.Contains(err.Error(), "store: schema coord lacks tables or functions") {
		t.Errorf("Open by one who may not make functions: %v, want ErrNotSent that says so", err)
	}
	u.User = url.User(testserver.PostgresUser)
	mustTry(t, open(t, u.String()), "owner", request("a", time.Minute)) // makes them
	mustTry(t, b, "k", request("a", time.Minute))
}
