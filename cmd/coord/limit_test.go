package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coordgo/coord/config"
)

func TestLimit(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		for range 2 {
			u.run("limit", "a", "--rate", "2/24h", "--", "echo", "ran").want(t, 0, "ran\n", "")
		}
		u.run("limit", "a", "--rate", "2/24h", "--", "echo", "ran").want(t, 75, "", `coord: "a" is limited to 2/24h: retry after `)
		u.run("limit", "b", "--rate", "2/24h", "-n", "2").want(t, 0, "", "")
		u.run("limit", "b", "--rate", "2/24h", "-n", "0").want(t, 75, "", "retry after ")
		u.run("limit", "b", "--rate", "2/24h", "--wait", "5s").want(t, 75, "", "retry after ")
		u.run("limit", "c", "--rate", "2/24h", "--", "false").want(t, 1, "", "")
		u.run("limit", "d", "--rate", "1/200ms", "-n", "1").want(t, 0, "", "")
		u.run("limit", "d", "--rate", "1/200ms", "--wait", "20s").want(t, 0, "", "")
		u.run("limit", "e", "--rate", "1/100ms", "--burst", "3", "-n", "3").want(t, 0, "", "")
		u.run("limit", "e", "--rate", "1/100ms", "--burst", "3", "--wait", "20s").want(t, 0, "", "")

		r := u.run("limit", "f", "--rate", "5/24h", "--algorithm", "fixed-window", "-n", "2", "--json")
		r.want(t, 0, "", "")
		var got struct {
			Name, Limit        string
			Allowed            bool
			Granted, Remaining int
			ResetAfterMS       int64 `json:"reset_after_ms"`
		}
		if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
			t.Fatal(err)
		}
		if got.Name != "f" || got.Limit != "5/24h fixed-window" || !got.Allowed || got.Granted != 2 || got.Remaining != 3 || got.ResetAfterMS < 1 || got.ResetAfterMS > 24*60*60*1000 {
			t.Errorf("--json: %s", r.stdout)
		}
		u.run("limit", "f", "--rate", "5/24h", "--algorithm", "fixed-window", "-n", "4", "--json").want(t, 75, `"allowed": false`, "retry after ")
	})
}

// The command replaces coord.
func TestLimitRunsTheCommand(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.process("limit", "a", "--rate", "2/24h", "--", "sh", "-c", "echo ran; exit 7").want(t, 7, "ran\n", "")
	u.process("limit", "a", "--rate", "2/24h", "--", "sh", "-c", "kill -TERM $$").want(t, -1, "", "")
	u.process("limit", "a", "--rate", "2/24h", "--", "echo", "ran").want(t, 75, "", "retry after ")
}

func TestLimitRefuses(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	for _, tt := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"limit"}, 64, "coord: no NAME: see coord limit --help\n"},
		{[]string{"limit", "a"}, 64, "coord: no --rate: want one, such as --rate 2000/1m, or a --config file with the limit \"a\"\n"},
		{[]string{"limit", "a", "true", "--rate", "1/1s"}, 64, "coord: put -- before the command"},
		{[]string{"limit", "a", "--rate", "1/1s", "--"}, 64, "coord: no command after --"},
		{[]string{"limit", "a", "--rate", "2000"}, 64, `limit "2000": no period`},
		{[]string{"limit", "a", "--rate", "x/1m"}, 64, `rate "x" is not a whole number`},
		{[]string{"limit", "a", "--rate", "1/1 month"}, 64, `period "1" has no unit`},
		{[]string{"limit", "a", "--rate", "0/1m"}, 64, "rate 0: want 1 to"},
		{[]string{"limit", "a", "--rate", "1/0s"}, 64, "period 0s: want 1ms to"},
		{[]string{"limit", "a", "--rate", "1/1s", "--burst", "0"}, 64, "coord: --burst 0: want 1 or more\n"},
		{[]string{"limit", "a", "--rate", "1/1s", "--burst", "2", "--algorithm", "sliding-window"}, 64, "only a token-bucket has a burst"},
		{[]string{"limit", "a", "--rate", "1/1s burst=2", "--burst", "2"}, 64, "unknown or repeated"},
		{[]string{"limit", "a", "--rate", "1/1s", "--algorithm", "leaky"}, 64, `"leaky"`},
		{[]string{"limit", "a", "--burst", "2"}, 64, "coord: --burst and --algorithm want --rate beside them\n"},
		{[]string{"limit", "a", "--rate", "2/1m", "-n", "3"}, 64, "3 asked of 2/1m, which grants at most 2"},
		{[]string{"limit", "a", "--rate", "2/1m", "-n", "3", "--wait", "1s"}, 64, "3 asked of 2/1m, which grants at most 2"},
		{[]string{"limit", "a", "--rate", "2/1m", "-n", "-1"}, 64, "-1 permits: want 0 or more"},
		{[]string{"limit", "a", "--rate", "2/1m", "-n", "x"}, 64, `"x"`},
		{[]string{"limit", "a", "--rate", "2/1m", "--wait", "0s"}, 64, "coord: --wait 0s: want above 0\n"},
		{[]string{"limit", "a", "--rate", "2/1m", "-n", "0", "--wait", "1s"}, 64, "there is nothing to wait for"},
		{[]string{"limit", "a", "--rate", "2/1m", "--json", "--", "true"}, 64, "both would write to standard output"},
		{[]string{"limit", "", "--rate", "2/1m"}, 64, "empty key"},
		{[]string{"limit", "a", "--rate", "2/1m", "--", "nosuch-command"}, 127, `cannot run "nosuch-command"`},
		{[]string{"--url", "redis://127.0.0.1:1", "limit", "a", "--rate", "2/1m"}, 69, "store unavailable"},
	} {
		r := u.run(tt.args...)
		r.want(t, tt.code, "", tt.stderr)
		if r.stdout != "" || !strings.HasPrefix(r.stderr, "coord: ") && !strings.HasPrefix(r.stderr, `{"error":`) {
			t.Errorf("%q: stdout %q, stderr %q", tt.args, r.stdout, r.stderr)
		}
	}
}

// The limits, the lock defaults and the store of a file.
func TestConfigFile(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	path := filepath.Join(u.dir, "coord.yaml")
	text := fmt.Sprintf("url: file://%s/store\nprefix: shop/\nlock: {ttl: 1m, wait: 1m}\nlimits:\n  supplier: 2/1m\n", u.dir)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	u.run("--config", path, "limit", "supplier", "-n", "2").want(t, 0, "", "")
	u.run("--config", path, "limit", "supplier").want(t, 75, "", `"supplier" is limited to 2/1m`)
	u.run("--config", path, "limit", "suplier").want(t, 64, "", `coord: no --rate, and `+path+`: limits: no limit "suplier": want one of supplier`)
	s, _ := u.hold("--config", path, "lock", "a")
	u.run("--url", "file://"+u.dir+"/store", "status", "shop/a").want(t, 0, "held", "")
	s.release()
	u.run("--config", path, "--url", "redis://127.0.0.1:1", "status", "a").want(t, 69, "", "store unavailable")

	// A store that is away admits, if the file says so.
	open := filepath.Join(u.dir, "open.yaml")
	if err := os.WriteFile(open, []byte("url: redis://127.0.0.1:1\nfailure_policy: open\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.run("--config", open, "limit", "a", "--rate", "1/1m", "--", "echo", "ran").want(t, 0, "ran\n", "coord: admitted by failure_policy open: ")
	u.run("--config", open, "lock", "a", "--", "echo", "ran").want(t, 69, "", "store unavailable")

	u.run("config", "check", path).want(t, 0, "limits.supplier  2/1m\n", "")
	u.run("config", "check").want(t, 64, "", "coord: no FILE: see coord config check --help\n")
	u.run("config", "check", path, path).want(t, 64, "", "want one FILE")
	if err := os.WriteFile(path, []byte("url: redis://u:secret@h\nlock:\n  ttl: 10\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.run("config", "check", path).want(t, 78, "", "coord: "+path+`:3: lock.ttl: "10": want a duration such as 30s`+"\n")
	u.run("--config", path, "status", "a").want(t, 78, "", path+":3: lock.ttl")
	if err := os.WriteFile(path, []byte("lock: {ttl: 10}\nlimits: {a: 5/1x}\ncolor: red\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := u.run("config", "check", path)
	lines := strings.Split(strings.TrimSpace(all.stderr), "\n") // one for each mistake
	for i, want := range []string{`:1: lock.ttl: "10": want a duration such as 30s`, `:2: limits.a: `, `:3: unknown key "color"`} {
		if all.code != 78 || len(lines) != 3 || !strings.HasPrefix(lines[i], "coord: "+path+want) {
			t.Errorf("exit status %d, want 78 and a line with %s:\n%s", all.code, want, all.stderr)
		}
	}
	if err := os.WriteFile(path, []byte("url: redis://u:secret@h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.run("config", "check", path).want(t, 0, "redis://xxxxx@h", "")
	for url, want := range map[string]string{
		"reddis://h":                `:1: url: invalid argument: store URL: scheme "reddis" is not registered: did you mean redis?`,
		"redis://u:secret@h?ttll=3": `:1: url: invalid argument: parameter "ttll": want prefix, client_name, `,
		"postgres://h/db?pool=3":    `:1: url: invalid argument: parameter "pool": want prefix, `,
		"memory://?x=3":             ":1: url: invalid argument: store URL: a parameter: a memory store has none but prefix",
	} {
		if err := os.WriteFile(path, []byte("url: "+url+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		u.run("config", "check", path).want(t, 78, "", "coord: "+path+want)
	}
	absent := filepath.Join(u.dir, "absent")
	if err := os.WriteFile(path, []byte("url: file://"+absent+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.run("config", "check", path).want(t, 0, "file://"+absent, "")
	if _, err := os.Stat(absent); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("config check made %s: %v", absent, err)
	}
	if err := os.WriteFile(path, []byte("url: redis://u:secret@h\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	u.run("config", "schema").want(t, 0, string(config.Schema()), "")

	// A password is shown by no command, wherever it is from.
	secret := filepath.Join(u.dir, "secret.yaml")
	if err := os.WriteFile(filepath.Join(u.dir, "password"), []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, password := range []string{"s3cret", "${PASSWORD}", "${file:" + u.dir + "/password}"} {
		if err := os.WriteFile(secret, []byte("url: redis://u:"+password+"@127.0.0.1:1/0?client_name=a%20b\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		v := &user{t: t, dir: u.dir, env: append(slices.Clone(u.env), "PASSWORD=s3cret")}
		for _, args := range [][]string{{"config", "check"}, {"config", "show"}, {"config", "show", "--json"}, {"status", "a"}, {"doctor"}, {"lock", "a", "--", "true"}} {
			r := v.run(append([]string{"--config", secret}, args...)...)
			if r.stdout+r.stderr == "" || strings.Contains(r.stdout+r.stderr, "s3cret") {
				t.Errorf("%v: %s%s", args, r.stdout, r.stderr)
			}
		}
	}

	// What is in force, and where each value is from.
	u.run("config", "show", path, path).want(t, 64, "", "want one FILE")
	u.run("config", "show", path).want(t, 0, "url             redis://xxxxx@h  "+path+":1\n", "")
	u.run("config", "show", path).want(t, 0, "lock.ttl        30s              default\n", "")
	u.run("--url", "file:///x", "config", "show", path).want(t, 0, "url             file:///x  --url\n", "")
	u.env = append(u.env, "COORD_LOCK_TTL=9s", "COORD_URL_LIMITS=redis://u:${NOSUCH}@h2")
	u.run("config", "show", "--json").want(t, 78, "", `{"error":"COORD_URL_LIMITS: no store beside it: set COORD_URL_LOCKS or COORD_URL too","status":78}`+"\n")
	u.run("config", "show", path, "--json").want(t, 0, fmt.Sprintf("{\n    \"key\": \"url.locks\",\n    \"value\": \"redis://xxxxx@h\",\n    \"from\": \"%s:1\"\n  }", path), "")
	u.run("config", "show", path).want(t, 0, "url.limits      redis://xxxxx@h2  COORD_URL_LIMITS\n", "")
	u.run("config", "show", path).want(t, 0, "lock.ttl        9s                COORD_LOCK_TTL\n", "")
	u.run("--config", path, "limit", "a", "--rate", "1/1s").want(t, 78, "", "coord: COORD_URL_LIMITS: ${NOSUCH}: not set in the environment\n")
	u.run("--config", path, "demo").want(t, 64, "", "two stores: give the URL of one of them")
	u.run("--config", path, "--url", "file://"+u.dir+"/own", "limit", "a", "--rate", "1/1s").want(t, 0, "", "")
}
