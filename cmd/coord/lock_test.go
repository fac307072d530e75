package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

func TestLockRefuses(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	for _, tt := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"lock"}, 64, "coord: no NAME: see coord lock --help\n"},
		{[]string{"lock", "a"}, 64, "coord: no command: want coord lock a -- CMD\n"},
		{[]string{"lock", "a", "--"}, 64, "coord: no command after --"},
		{[]string{"lock", "a", "true"}, 64, "coord: put -- before the command: coord lock a -- true"},
		{[]string{"lock", "a", "b", "--", "true"}, 64, `coord: unexpected argument "b"`},
		{[]string{"lock", "--", "true"}, 64, "coord: no NAME"},
		{[]string{"lock", "", "--", "true"}, 64, "empty key: want 1 to 1024 bytes"},
		{[]string{"lock", "a\n", "--", "true"}, 64, `coord: NAME "a\n" has a line break or another control character: leave it out` + "\n"},
		{[]string{"lead", "a\r", "--", "true"}, 64, `coord: NAME "a\r" has a line break`},
		{[]string{"limit", "a\n", "--rate", "1/1s"}, 64, `coord: NAME "a\n" has a line break`},
		{[]string{"lock", strings.Repeat("x", 1025), "--", "true"}, 64, "key of 1025 bytes: want 1 to 1024"},
		{[]string{"lock", "a", "--ttl", "10", "--", "true"}, 64, `"10"`},
		{[]string{"lock", "a", "--ttl", "0s", "--", "true"}, 64, "coord: --ttl 0s: want above 0\n"},
		{[]string{"lock", "a", "--ttl", "99999h", "--", "true"}, 64, "99999h"},
		{[]string{"lock", "a", "--wait", "-1s", "--", "true"}, 64, "coord: --wait -1s: want above 0\n"},
		{[]string{"lock", "a", "--max-hold", "0s", "--", "true"}, 64, "coord: --max-hold 0s: want above 0\n"},
		{[]string{"lock", "a", "--min-hold", "0s", "--", "true"}, 64, "coord: --min-hold 0s: want above 0\n"},
		{[]string{"lock", "a", "--min-hold", "2m", "--max-hold", "1m", "--", "true"}, 64, "coord: --min-hold 2m0s: want at most --max-hold, 1m0s\n"},
		{[]string{"lock", "a", "--wait", "1s", "--no-wait", "--", "true"}, 64, "--wait and --no-wait contradict each other"},
		{[]string{"lock", "a", "--conflict-exit", "256", "--", "true"}, 64, "coord: --conflict-exit 256: want 0 to 255\n"},
		{[]string{"lock", "a", "--grace", "-1s", "--", "true"}, 64, "coord: --grace -1s: want 0 or more\n"},
		{[]string{"lock", "a", "--grace", "11s", "--", "true"}, 64, "coord: --grace 11s: want at most 10s"},
		{[]string{"lock", "a", "--nosuch", "--", "true"}, 64, "coord: unknown flag: --nosuch: see coord lock --help\n"},
		{[]string{"lock", "a", "--", "nosuch-command"}, 127, `coord: cannot run "nosuch-command": executable file not found in $PATH`},
		{[]string{"lock", "a", "--", "/nosuch/command"}, 127, `coord: cannot run "/nosuch/command": no such file or directory`},
		{[]string{"lock", "a", "--", "/"}, 126, `coord: cannot run "/": is a directory`},
		{[]string{"lock", "a", "--", "/etc/passwd"}, 126, `coord: cannot run "/etc/passwd": permission denied`},
		{[]string{"--url", "nosuch://", "lock", "a", "--", "true"}, 64, "coord: no store nosuch://: want one of " + strings.Join(driver.Schemes(), ", ") + "\n"},
		{[]string{"--url", "memory://", "lock", "a", "--", "true"}, 64, "coord: a memory:// store is each process's own, and would keep nobody out: want another store\n"},
		{[]string{"--url", "memory://", "limit", "a", "--rate", "1/1s"}, 64, "would keep nobody out"},
		{[]string{"--url", "memory://", "status", "a"}, 64, "would keep nobody out"},
		{[]string{"--url", "memory://", "break", "a"}, 64, "would keep nobody out"},
		{[]string{"--url", "u:secret@h", "lock", "a", "--", "true"}, 64, "coord: --url: no // after the scheme"},
		{[]string{"--url", "redis://u:secret@127.0.0.1:1", "lock", "a", "--", "true"}, 69, "store unavailable"},
		{[]string{"--config", "/nosuch.yaml", "lock", "a", "--", "true"}, 78, "coord: --config: open /nosuch.yaml: no such file or directory\n"},
		{[]string{"nosuch"}, 64, `coord: unknown command "nosuch": see coord --help`},
		{[]string{"stauts", "a"}, 64, `coord: unknown command "stauts": did you mean status?`},
	} {
		r := u.run(tt.args...)
		r.want(t, tt.code, "", tt.stderr)
		if r.stdout != "" || strings.Contains(r.stderr, "secret") || !strings.HasPrefix(r.stderr, "coord: ") {
			t.Errorf("%q: stdout %q, stderr %q", tt.args, r.stdout, r.stderr)
		}
	}
}

// Who does not get the lock is told who has it.
func TestLockTaken(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		s, _ := u.hold("lock", "a")
		u.run("lock", "a", "--no-wait", "--", "echo", "ran").want(t, 75, "", fmt.Sprintf(`coord: the lock "a" is taken by %s (pid %d): try --wait`, host(t), os.Getpid()))
		u.run("lock", "a", "--no-wait", "--conflict-exit", "9", "--", "echo", "ran").want(t, 9, "", "is taken by")
		if r := u.run("lock", "a", "--no-wait", "--conflict-exit", "0", "--", "echo", "ran"); r != (result{}) {
			t.Errorf("--conflict-exit 0: %+v, want nothing", r)
		}
		u.run("lock", "b", "--no-wait", "--", "true").want(t, 0, "", "")
		s.release()
		u.run("lock", "a", "--", "echo", "ran").want(t, 0, "ran\n", "")
	})
}

func host(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// A signal while coord waits for the lock ends the wait, and leaves nothing behind.
func TestLockInterruptedWait(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		s, _ := u.hold("lock", "a")
		waiter := u.begin("lock", "a", "--verbose", "--", "true")
		waiter.says(fmt.Sprintf("coord: waiting: the lock \"a\" is taken by %s (pid %d)\n", host(t), os.Getpid()))
		waiter.signal(syscall.SIGTERM)
		if r := waiter.end(); r.code != 143 || r.stdout != "" || len(waiter.up) > 0 {
			t.Errorf("exit status %d, want 143; it wrote %q", r.code, r.stdout)
		}
		s.release()
		u.run("lock", "a", "--", "true").want(t, 0, "", "")
	})
}

// MinHold keeps the lock taken after the command has ended.
func TestLockMinHold(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		if !u.store.kept {
			u.run("lock", "a", "--min-hold", "1m", "--", "true").want(t, 64, "", `does not claim "min-hold-after-exit"`)
			return
		}
		u.run("lock", "a", "--min-hold", "1m", "--", "true").want(t, 0, "", "")
		u.run("lock", "a", "--no-wait", "--", "true").want(t, 75, "", `the lock "a" is taken: try --wait`)
		u.run("status", "a").want(t, 0, "kept taken: nobody holds it any more", "")
		u.run("break", "a").want(t, 3, "", "it is kept taken for another")
		u.run("break", "a", "--now").want(t, 0, `freed the lock "a", which was kept taken`, "")
		u.run("status", "a").want(t, 3, "", "")
		u.run("break", "a", "--now").want(t, 3, "", "nobody holds")
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		u.run("status", "a").want(t, 3, "state  free\n", "")
		u.run("status", "a", "--json").want(t, 3, `"state": "free"`, "")
		s, h := u.hold("lock", "a")
		u.run("status", "a").want(t, 0, fmt.Sprintf("holder      %s (pid %d)\n", host(t), os.Getpid()), "")
		out := u.run("status", "a", "--json")
		out.want(t, 0, "", "")
		var got struct {
			Name, State string
			Holder      struct {
				Name, Token, ID string
				PID             int
				Asked           time.Time
			}
			LeftMS int64 `json:"left_ms"`
		}
		if err := json.Unmarshal([]byte(out.stdout), &got); err != nil {
			t.Fatal(err)
		}
		if got.Name != "a" || got.State != "held" || got.Holder.Name != host(t) || got.Holder.PID != os.Getpid() || got.Holder.Token != h.env["COORD_TOKEN"] ||
			!strings.HasPrefix(got.Holder.ID, host(t)+"/") || got.Holder.Asked.IsZero() || got.LeftMS < 1 || got.LeftMS > 30000 {
			t.Errorf("status --json: %s, token %s", out.stdout, h.env["COORD_TOKEN"])
		}
		s.release()
	})
	u := newUser(t, "")
	u.run("status", "a", "b").want(t, 64, "", "coord: want one NAME, or --prefix, or neither: see coord status --help\n")
	u.run("status", "a", "--prefix", "b").want(t, 64, "", "coord: want one NAME, or --prefix, or neither")
	u.run("break").want(t, 64, "", "coord: want one NAME, not 0 arguments: see coord break --help\n")
}

// Without a name all locks are shown, on stores that can list them.
func TestStatusOfAll(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		if !u.store.lists {
			u.run("status").want(t, 64, "", "the store "+u.store.name+" cannot list what is held: give a NAME")
			return
		}
		u.run("status").want(t, 3, "", "coord: nothing is held\n")
		one, _ := u.hold("lock", "jobs/a")
		other, _ := u.hold("lock", "other")
		lines := []string{
			`NAME +KIND +HOLDER +LEASE LEFT +WAITING +TOKEN +ID`, fmt.Sprintf(`jobs/a +lock +%s \(pid %d\) .*`, host(t), os.Getpid()), `other +lock .*`,
		}
		reader, _ := u.hold("lock", "docs", "--read")
		permits, _ := u.hold("lock", "pool", "--permits", "5", "--weight", "2")
		lines = append(lines, `docs +read +.*`, `pool +2 of 5 permits +.*`)
		all := u.run("status")
		all.want(t, 0, "NAME ", "")
		for _, line := range lines {
			if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(all.stdout) {
				t.Errorf("status shows no line %q:\n%s", line, all.stdout)
			}
		}
		if some := u.run("status", "--prefix", "jobs/"); some.code != 0 || !strings.Contains(some.stdout, "\njobs/a ") || strings.Count(some.stdout, "\n") != 2 {
			t.Errorf("status --prefix: %+v", some)
		}
		if out := u.run("status", "--prefix", "jobs/", "--json").stdout; strings.Count(out, "\n") != 1 || !strings.Contains(out, `"name":"jobs/a","state":"held"`) {
			t.Errorf("status --json: %s", out)
		}
		u.run("status", "--prefix", "none").want(t, 3, "", `coord: nothing is held whose name begins with "none"`)
		u.run("status", "--prefix", "none", "--json").want(t, 3, "", "")
		for _, s := range []*session{one, other, reader, permits} {
			s.release()
		}
		u.run("status").want(t, 3, "", "coord: nothing is held\n")
	})
}

// Fair is refused where waiters are not in one line.
func TestLockFair(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		if !u.store.fair {
			u.run("lock", "a", "--fair", "--", "true").want(t, 64, "", `does not claim "fair"`)
			return
		}
		u.run("lock", "a", "--fair", "--", "true").want(t, 0, "", "")
	})
}
