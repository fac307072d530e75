package postgres

import (
	"testing"

	"github.com/coordgo/coord/driver"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(srv.Addr))
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
	bad := told{version: 130_004, fsync: "off", pages: "on", autovacuum: "off", connections: 100, used: 90, replicas: 1}
	for _, f := range []driver.Finding{bad.checkVersion(), bad.checkDurability(), bad.checkReplication(), bad.checkConnections(), bad.checkVacuum()} {
		if f.Level == driver.LevelOK || f.Remedy == "" {
			t.Errorf("%+v of a bad server: want a warning and its remedy", f)
		}
	}
}
