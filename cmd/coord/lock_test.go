//go:build unix

package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// The status of the command is coord's, and so are its input and output.
func TestLockRunsTheCommand(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.run("lock", "a", "--", "true").want(t, 0, "", "")
	u.run("lock", "a", "--", "sh", "-c", "exit 7").want(t, 7, "", "")
	u.run("lock", "a", "--", "sh", "-c", "kill -9 $$").want(t, 137, "", "")
	u.run("lock", "a", "--", "sh", "-c", "kill -TERM $$").want(t, 143, "", "")
	u.pipe("one\ntwo\n", "lock", "a", "--", "cat").want(t, 0, "one\ntwo\n", "")
	u.run("lock", "a", "--", "sh", "-c", "echo oops >&2").want(t, 0, "", "oops\n")
	u.run("lock", "a b/ü", "--", "sh", "-c", `echo "$COORD_LOCK"`).want(t, 0, "a b/ü\n", "")
	u.run("lock", "a", "--", "echo", "--ttl", "--", "-x").want(t, 0, "--ttl -- -x\n", "")
	if _, err := os.Stat(filepath.Join(u.dir, ".local", "state", "coord")); err != nil {
		t.Errorf("the default store: %v", err)
	}
}

// Descriptors are inherited, not copied: the command sees the very file.
func TestLockInheritsDescriptors(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	file, err := os.Create(filepath.Join(u.dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := u.command("lock", "a", "--", "sh", "-c", `out=$(readlink /proc/$$/fd/1); echo "$out" >&2; echo to three >&3`)
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = file, &stderr
	extra, err := os.Create(filepath.Join(u.dir, "three"))
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	cmd.ExtraFiles = []*os.File{extra}
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Logf("which file standard output is cannot be seen here: %v", err)
	} else if got := strings.TrimSpace(stderr.String()); got != file.Name() {
		t.Errorf("standard output is %q, want %q", got, file.Name())
	}
	if text, err := os.ReadFile(extra.Name()); err != nil || string(text) != "to three\n" {
		t.Errorf("descriptor 3 got %q, %v", text, err)
	}
}

func TestLockRefuses(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	script := filepath.Join(u.dir, "script")
	if err := os.WriteFile(script, []byte("not a program"), 0o700); err != nil {
		t.Fatal(err)
	}
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
		{[]string{"lock", "a", "--", script}, 126, "exec format error"},
		{[]string{"--url", "nosuch://", "lock", "a", "--", "true"}, 64, "coord: no store nosuch://: want one of " + strings.Join(coord.Schemes(), ", ") + "\n"},
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
		r := u.start("lock", "a", "--", "sh", "-c", "echo up; cat")
		u.run("lock", "a", "--no-wait", "--", "echo", "ran").want(t, 75, "", fmt.Sprintf(`coord: the lock "a" is taken by %s (pid %d): try --wait`, host(t), r.cmd.Process.Pid))
		u.run("lock", "a", "--wait", "1s", "--", "echo", "ran").want(t, 75, "", "waited in vain")
		u.run("lock", "a", "--no-wait", "--conflict-exit", "9", "--", "echo", "ran").want(t, 9, "", "is taken by")
		if r := u.run("lock", "a", "--no-wait", "--conflict-exit", "0", "--", "echo", "ran"); r != (result{}) {
			t.Errorf("--conflict-exit 0: %+v, want nothing", r)
		}
		u.run("lock", "b", "--no-wait", "--", "true").want(t, 0, "", "")
		if err := r.in.Close(); err != nil {
			t.Fatal(err)
		}
		r.end().want(t, 0, "", "")
		u.run("lock", "a", "--no-wait", "--", "true").want(t, 0, "", "")
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

// Fifty shells increment a number in a file, without anything else to protect it.
func TestLockFifty(t *testing.T) {
	const shells, atOnce = 50, 12 // more at once starve the server on a machine of few cores
	onStores(t, func(t *testing.T, u *user) {
		u.heavy()
		number := filepath.Join(u.dir, "number")
		if err := os.WriteFile(number, []byte("0\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		const script = `read n < number; echo $((n + 1)) > number; echo $COORD_TOKEN >> tokens`
		var wg sync.WaitGroup
		for i := range atOnce {
			wg.Go(func() {
				for range (shells + i) / atOnce {
					u.run("lock", "number", "--", "sh", "-c", script).want(t, 0, "", "")
				}
			})
		}
		wg.Wait()
		if text, err := os.ReadFile(number); err != nil || string(text) != fmt.Sprintf("%d\n", shells) {
			t.Errorf("the number is %q, %v, want %d", text, err, shells)
		}
		text, err := os.ReadFile(filepath.Join(u.dir, "tokens"))
		if err != nil {
			t.Fatal(err)
		}
		last, tokens := int64(0), strings.Fields(string(text))
		for _, s := range tokens {
			token, err := strconv.ParseInt(s, 10, 64)
			if err != nil || token <= last {
				t.Errorf("token %q after %d", s, last)
			}
			last = token
		}
		if len(tokens) != shells {
			t.Errorf("%d tokens, want %d", len(tokens), shells)
		}
	})
}

// A signal to coord reaches the command once, and the lock is freed when it has ended.
func TestLockPassesSignals(t *testing.T) {
	u := newUser(t, "")
	u.env = append(u.env, envRecorder+"=1")
	r := u.start("lock", "a", "--", os.Args[0])
	for sig, name := range map[syscall.Signal]string{
		syscall.SIGTERM: "TERM", syscall.SIGINT: "INT", syscall.SIGHUP: "HUP", syscall.SIGUSR1: "USR1",
	} {
		if signal.Ignored(sig) {
			t.Logf("%s is ignored in this test run, as under nohup", name)
			continue
		}
		if err := r.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		r.await(name)
		// What comes next is the next line: the signal did not come twice.
		if _, err := fmt.Fprintln(r.in, "after "+name); err != nil {
			t.Fatal(err)
		}
		r.await("after " + name)
	}
	u.run("status", "a").want(t, 0, "held", "")
	if err := r.in.Close(); err != nil {
		t.Fatal(err)
	}
	r.end().want(t, 9, "", "")
	u.run("status", "a").want(t, 3, "free", "")
}

// A command that a signal ends gives the status that a shell gives.
func TestLockSignalEndsTheCommand(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		if signal.Ignored(sig) {
			t.Logf("%v is ignored in this test run, as under nohup", sig)
			continue
		}
		r := u.start("lock", "a", "--", "sh", "-c", "echo up; exec sleep 60")
		if err := r.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		r.end().want(t, code, "", "")
		u.run("status", "a").want(t, 3, "free", "")
	}
}

// A signal that was ignored when coord started stays ignored, as nohup wants.
func TestLockKeepsIgnored(t *testing.T) {
	u := newUser(t, "")
	cmd := u.command()
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `trap '' HUP; exec "$0" lock a -- sh -c 'kill -HUP $PPID; kill -HUP $$; echo survived'`, binary}
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "survived\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// A signal while coord waits for the lock ends the wait, and leaves nothing behind.
func TestLockInterruptedWait(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		r := u.start("lock", "a", "--", "sh", "-c", "echo up; cat")
		waiter := u.command("lock", "a", "--verbose", "--", "echo", "ran")
		var out strings.Builder
		waiter.Stdout = &out
		stderr, err := waiter.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := waiter.Start(); err != nil {
			t.Fatal(err)
		}
		lines := make(chan string, 8)
		go readLines(stderr, lines)
		if line, want := <-lines, fmt.Sprintf(`coord: waiting: the lock "a" is taken by %s (pid %d)`, host(t), r.cmd.Process.Pid); line != want {
			t.Errorf("it said %q, want %q", line, want)
		}
		if err := waiter.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for line := range lines {
			t.Errorf("it said %q", line)
		}
		if code := exitCode(t, waiter.Wait()); code != 143 || out.String() != "" {
			t.Errorf("exit status %d, want 143; it wrote %q", code, out.String())
		}
		if err := r.in.Close(); err != nil {
			t.Fatal(err)
		}
		r.end().want(t, 0, "", "")
		u.run("lock", "a", "--no-wait", "--", "true").want(t, 0, "", "")
	})
}

// A lock that is broken while the command runs: TERM, and 74.
func TestLockBroken(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		for _, args := range [][]string{{"break", "a"}, {"break", "a", "--now"}} {
			r := u.start("lock", "a", "--ttl", "3s", "--", "bash", "-c", `exec 2>/dev/null; trap 'echo TERM; exit 5' TERM; echo up; while :; do sleep 0.02; done`)
			u.run(args...).want(t, 0, fmt.Sprintf(`took the lock "a" from %s (pid %d)`, host(t), r.cmd.Process.Pid), "")
			r.await("TERM")
			r.end().want(t, 74, "", `coord: the lock "a" was lost while the command ran`)
			if !eventually(func() bool { return u.run("status", "a").code == 3 }) {
				t.Fatal("the lock is not free")
			}
		}
		u.run("break", "a").want(t, 3, "", `coord: nobody holds the lock "a"`)
	})
}

// A command that does not heed TERM is killed, with all of its group.
func TestLockKills(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	r := u.start("lock", "a", "--ttl", "900ms", "--grace", "100ms", "--", "bash", "-c",
		`trap '' TERM; sleep 300 & echo $! > sleeper; echo up; while :; do sleep 0.02; done`)
	u.run("break", "a").want(t, 0, "took the lock", "")
	r.end().want(t, 74, "", "was lost")
	text, err := os.ReadFile(filepath.Join(u.dir, "sleeper"))
	if err != nil {
		t.Fatal(err)
	}
	awaitDeath(t, strings.TrimSpace(string(text)))
}

// awaitDeath waits until a process is gone, or dead and not yet buried.
func awaitDeath(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	dead := eventually(func() bool {
		if syscall.Kill(n, 0) != nil {
			return true
		}
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		return err == nil && strings.Contains(string(stat), ") Z ")
	})
	if !dead {
		t.Errorf("process %s goes on without the lock", pid)
	}
}

// The command has ended when its lock ends: TERM comes before --max-hold, KILL with it.
func TestLockMaxHold(t *testing.T) {
	u := newUser(t, "")
	began := time.Now()
	r := u.start("lock", "a", "--max-hold", "3s", "--", "bash", "-c", `exec 2>/dev/null; trap 'echo TERM' TERM; echo up; while :; do sleep 0.02; done`)
	r.await("TERM")
	r.end().want(t, 74, "", `coord: the lock "a" reached its --max-hold of 3s: the command has ended`)
	if took := time.Since(began); took < 2*time.Second || took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// When the store is away the command is told in time, and is dead when its lease ends,
// heeding TERM or not.
func TestLockStoreAway(t *testing.T) {
	const ttl = 2400 * time.Millisecond
	server := testserver.Redis(t)
	u := newUser(t, "redis://"+server.Addr)
	r := u.start("lock", "a", "--ttl", ttl.String(), "--", "bash", "-c",
		`exec 2>/dev/null; trap 'echo TERM' TERM; echo $$ > pid; echo up; while :; do sleep 0.02; done`)
	stalls := watchStalls(t)
	server.Pause()
	paused := time.Now()
	r.await("TERM")
	text, err := os.ReadFile(filepath.Join(u.dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	awaitDeath(t, strings.TrimSpace(string(text)))
	if took, late := time.Since(paused), 3*stalls(); took > ttl+300*time.Millisecond+late {
		t.Errorf("the command lived %v after the last renewal, want at most %v, and %v on this machine", took, ttl, late)
	}
	r.end().want(t, 74, "", "was lost") // the store is still away
	server.Resume()
}

// watchStalls gives a function that tells for how long, at most, this process was not scheduled.
func watchStalls(t *testing.T) (longest func() time.Duration) {
	const every = 5 * time.Millisecond
	var most atomic.Int64
	go func() {
		last := time.Now()
		for t.Context().Err() == nil {
			time.Sleep(every)
			now := time.Now()
			most.Store(max(most.Load(), int64(now.Sub(last)-every)))
			last = now
		}
	}()
	return func() time.Duration { return time.Duration(most.Load()) }
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
	})
}

// A holder that is killed: its command dies with it, and the next has the lock when the lease ends.
func TestLockKilled(t *testing.T) {
	onStores(t, func(t *testing.T, u *user) {
		u.heavy()
		r := u.start("lock", "a", "--ttl", "1s", "--", "bash", "-c", `echo $$ > pid; echo up; while :; do sleep 0.02; done`)
		killed := time.Now()
		if err := r.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		u.run("lock", "a", "--wait", "20s", "--", "true").want(t, 0, "", "")
		if took, most := time.Since(killed), time.Second+u.store.late; took > most {
			t.Errorf("the next had the lock after %v, want at most %v", took, most)
		}
		text, err := os.ReadFile(filepath.Join(u.dir, "pid"))
		if err != nil {
			t.Fatal(err)
		}
		awaitDeath(t, strings.TrimSpace(string(text)))
		_ = r.cmd.Wait() // it was killed
	})
}

// A holder that was stopped beyond its lease ends its command when it goes on, with 74.
func TestLockStopped(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		r := u.start("lock", "a", "--ttl", "2s", "--", "bash", "-c", `exec 2>/dev/null; trap 'echo TERM; exit 5' TERM; echo up; while :; do sleep 0.02; done`)
		if err := r.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		u.run("lock", "a", "--wait", "20s", "--", "true").want(t, 0, "", "")
		if err := r.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		r.await("TERM")
		r.end().want(t, 74, "", "was lost")
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		u.run("status", "a").want(t, 3, "state  free\n", "")
		u.run("status", "a", "--json").want(t, 3, `"state": "free"`, "")
		r := u.start("lock", "a", "--", "sh", "-c", `echo up; echo $COORD_TOKEN; cat`)
		token := <-r.lines
		pid := r.cmd.Process.Pid
		u.run("status", "a").want(t, 0, fmt.Sprintf("holder      %s (pid %d)\n", host(t), pid), "")
		out := u.run("status", "a", "--json")
		out.want(t, 0, "", "")
		var s struct {
			Name, State string
			Holder      struct {
				Name, Token, ID string
				PID             int
				Asked           time.Time
			}
			LeftMS int64 `json:"left_ms"`
		}
		if err := json.Unmarshal([]byte(out.stdout), &s); err != nil {
			t.Fatal(err)
		}
		if s.Name != "a" || s.State != "held" || s.Holder.Name != host(t) || s.Holder.PID != pid || s.Holder.Token != token ||
			!strings.HasPrefix(s.Holder.ID, host(t)+"/") || time.Since(s.Holder.Asked) > time.Minute || s.LeftMS < 1 || s.LeftMS > 30000 {
			t.Errorf("status --json: %s, token %s", out.stdout, token)
		}
		if err := r.in.Close(); err != nil {
			t.Fatal(err)
		}
		r.end().want(t, 0, "", "")
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
			u.run("status").want(t, 64, "", "not supported by this store")
			return
		}
		u.run("status").want(t, 3, "", "")
		held := u.start("lock", "jobs/a", "--", "sh", "-c", "echo up; cat")
		other := u.start("lock", "other", "--", "sh", "-c", "echo up; cat")
		who := host(t) + " (pid " + strconv.Itoa(held.cmd.Process.Pid) + ")"
		u.run("status").want(t, 0, "jobs/a  held  "+who, "")
		u.run("status").want(t, 0, "other  held", "")
		u.run("status", "--prefix", "jobs/").want(t, 0, "jobs/a  held", "")
		if out := u.run("status", "--prefix", "jobs/", "--json").stdout; strings.Count(out, "\n") != 1 || !strings.Contains(out, `"name":"jobs/a","state":"held"`) {
			t.Errorf("status --json: %s", out)
		}
		u.run("status", "--prefix", "none").want(t, 3, "", "")
		for _, r := range []*running{held, other} {
			if err := r.in.Close(); err != nil {
				t.Fatal(err)
			}
			r.end().want(t, 0, "", "")
		}
		u.run("status").want(t, 3, "", "")
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
