package main_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		r := u.run("doctor", "--json")
		r.want(t, 0, "", "")
		var c map[string]any
		if err := json.Unmarshal([]byte(r.stdout), &c); err != nil {
			t.Fatal(err)
		}
		measured := []string{"open_us", "ping_us", "lock_us", "limit_us"}
		if u.store.clock {
			measured = append(measured, "clock_us", "clock_error_us")
		}
		for _, key := range measured {
			if _, ok := c[key].(float64); !ok {
				t.Errorf("%s is %v, want a number", key, c[key])
			}
		}
		// Store and test share one machine and its clock.
		us, ok := c["clock_us"].(float64)
		if within, _ := c["clock_error_us"].(float64); ok && math.Abs(us) > within+1000 {
			t.Errorf("the store's clock is %v µs apart, give or take %v", us, within)
		}
		u.run("doctor").want(t, 0, "  clock  ", "")
	})
	u := newUser(t, "")
	u.run("doctor", "memory://").want(t, 0, "\nok    clock  that of this machine\n", "")
	u.run("doctor", "redis://u:secret@127.0.0.1:1").want(t, 69, "", "open redis://xxxxx@127.0.0.1:1: store unavailable")
	u.run("doctor", "memory://?x=secret").want(t, 64, "", "invalid argument")
	u.run("doctor", "memory://", "b").want(t, 64, "", `unexpected argument "b"`)
	u.run("doctor", "memory://", "--url", "memory://").want(t, 64, "", "give one of them")
}

func TestStores(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	for _, scheme := range []string{"file", "memory", "redis", "rediss"} {
		u.run("stores").want(t, 0, scheme+"://", "")
		u.run("stores", "--json").want(t, 0, `"scheme": "`+scheme+`"`, "")
	}
	u.run("stores", "x").want(t, 64, "", `unexpected argument "x"`)
}

func TestSchema(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.run("schema", "postgres").want(t, 0, "CREATE TABLE IF NOT EXISTS coord.locks", "")
	u.run("schema", "postgres", "--name", "shop").want(t, 0, "CREATE SCHEMA shop;", "")
	u.run("schema", "postgres", "--name", "a b").want(t, 64, "", `schema "a b"`)
	u.run("schema", "redis").want(t, 64, "", "want the name of a store with tables: postgres")
	u.run("schema").want(t, 64, "", "want the name of a store with tables: postgres")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	r := u.run("version")
	r.want(t, 0, "coord ", "")
	if !regexp.MustCompile(`^coord \S+( \S+)? (\(modified\) )?go\S+ \w+/\w+\n$`).MatchString(r.stdout) {
		t.Errorf("version is %q", r.stdout)
	}
	u.run("version", "--json").want(t, 0, `"go": "go`, "")
	if flag := u.run("--version"); flag != r {
		t.Errorf("--version says %+v, version %+v", flag, r)
	}
}

// Every command has help with examples, and says how to be completed.
func TestHelp(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.run().want(t, 0, "See and break:", "")
	for _, args := range []string{"", "lock", "lead", "acquire", "release", "limit", "limit list", "limit peek", "limit reset", "limit charge", "demo", "status", "watch", "break", "stores", "schema", "doctor", "config", "config check", "config show", "config schema", "version", "completion"} {
		r := u.run(append(strings.Fields(args), "--help")...)
		r.want(t, 0, "Examples:\n", "")
		if !strings.Contains(r.stdout, "coord "+args) {
			t.Errorf("coord %s --help has no example of it:\n%s", args, r.stdout)
		}
	}
	if r := u.run("--help"); strings.Contains(r.stdout, "demo-worker") {
		t.Error("help shows the demonstration's worker")
	}
	u.run("help", "exit-codes").want(t, 0, "75  the lock is taken", "")
	for _, command := range []string{"lock", "limit", "status"} {
		if r := u.run(command, "--help"); strings.Contains(r.stdout, "75  the lock is taken") {
			t.Errorf("the table of exit codes is on the page of coord %s", command)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		u.run("completion", shell).want(t, 0, "coord", "")
	}
	u.run("help", "config", "check").want(t, 0, "coord config check coord.yaml", "")
	u.run("help", "nosuch").want(t, 64, "", `coord: unknown command "nosuch": see coord --help`)
	u.run("completion", "nosuch").want(t, 64, "", `coord: unexpected argument "nosuch": see coord completion --help`)
	u.run("__complete", "limit", "a", "--algorithm", "").want(t, 0, "token-bucket", "")
}

// The store of a user on one machine.
func TestLocalStore(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	state := filepath.Join(u.dir, "state")
	u.env = append(u.env, "XDG_STATE_HOME="+state, "COORD_URL=redis://127.0.0.1:1") // which --local overrides
	u.run("--local", "lock", "a", "--", "true").want(t, 0, "", "")
	info, err := os.Stat(filepath.Join(state, "coord"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v: want a directory for its owner alone", info, err)
	}
	u.env = append(u.env, "XDG_STATE_HOME=relative")
	u.run("lock", "a", "--local", "--", "true").want(t, 0, "", "")
	if _, err := os.Stat(filepath.Join(u.dir, "relative")); err == nil {
		t.Error("a relative XDG_STATE_HOME was used")
	}
	u.run("--local", "--url", "file:///tmp", "lock", "a", "--", "true").want(t, 64, "", "--local beside a URL")
	u.env = append(u.env, "HOME=", "XDG_STATE_HOME=")
	u.run("--local", "lock", "a", "--", "true").want(t, 69, "", "set --url or COORD_URL")
	u.run("--url", "file:///dev/null", "lock", "a", "--", "true").want(t, 64, "", "/dev/null")
}

// Without a store nothing is locked, and nothing is said to be free.
func TestNoStore(t *testing.T) {
	t.Parallel()
	const want = "coord: no store: give --url, COORD_URL, or --config with a file that has a url; or --local, which keeps out processes of this machine alone"
	u := newUser(t, "")
	u.env = append(u.env, "COORD_PREFIX=a", "COLOR=1") // no slips
	file := u.write("coord.yaml", "prefix: a\n")
	for _, args := range [][]string{
		{"--config", file, "lock", "a", "--", "true"},
		{"--config", file, "limit", "a", "--rate", "1/1s"},
		{"--config", file, "status", "a"},
		{"--config", file, "break", "a"},
	} {
		u.run(args...).want(t, 64, "", want+"\n")
	}
	for _, slip := range []string{"COORD_ULR", "COORD_UR", "coord_url", "COORDURL", "CORD_URL"} {
		u := newUser(t, "")
		u.env = append(u.env, slip+"=redis://127.0.0.1:1")
		u.run("--config", file, "lock", "a", "--", "true").want(t, 64, "", want+"; "+slip+" is set: did you mean COORD_URL?\n")
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	u := newRedisUser(t)
	u.run("demo").want(t, 0, "checks passed in ", "")
	u.run("demo", "--url", "memory://").want(t, 64, "", "a memory store is one process's own")
	u.run("demo", "--url", "redis://127.0.0.1:1").want(t, 69, "", "store unavailable")
	u.run("demo-worker").want(t, 64, "", "demo-worker is for the demonstration alone")
}

// Whoever asks for JSON gets errors so, too; a silent one stays silent.
func TestErrorsAsJSON(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.env = append(u.env, "COORD_URL=redis://127.0.0.1:1")
	for _, args := range [][]string{{"status", "a", "--json"}, {"limit", "a", "--rate", "1/1s", "--json"}, {"watch", "a", "--json"}} {
		r := u.run(args...)
		var told struct {
			Error  string
			Status int
		}
		if err := json.Unmarshal([]byte(r.stderr), &told); err != nil || told.Error == "" || told.Status != 69 || r.code != 69 || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%v: exit status %d, stderr %q (%v)", args, r.code, r.stderr, err)
		}
	}
	u.run("limit", "a", "--rate", "no", "--json").want(t, 64, "", `{"error":"`)
	u.env = append(u.env, "COORD_URL=file://"+u.dir)
	if r := u.run("status", "a", "--json"); r.code != 3 || r.stderr != "" {
		t.Errorf("of a free lock: exit status %d, stderr %q", r.code, r.stderr)
	}
}
