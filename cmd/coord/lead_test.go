//go:build unix

package main_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordgo/coord/internal/testserver"
)

// The command's own end is coord's.
func TestLeadRunsTheCommand(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		u.run("lead", "a", "--", "sh", "-c", `echo "$COORD_LOCK"`).want(t, 0, "a\n", "")
		u.run("lead", "a", "--", "sh", "-c", "exit 7").want(t, 7, "", "")
		u.run("lead", "a", "--", "sh", "-c", "kill -TERM $$").want(t, 143, "", "")
		u.run("status", "a").want(t, 3, "free", "")
	})
}

func TestLeadRefuses(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	for _, tt := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"lead"}, 64, "coord: no NAME: see coord lead --help\n"},
		{[]string{"lead", "a"}, 64, "coord: no command: want coord lead a -- CMD\n"},
		{[]string{"lead", "a", "--ttl", "0s", "--", "true"}, 64, "coord: --ttl 0s: want above 0\n"},
		{[]string{"lead", "a", "--grace", "11s", "--", "true"}, 64, "coord: --grace 11s: want at most 10s"},
		{[]string{"lead", "a", "--as", "two words", "--", "true"}, 64, `holder name "two words"`},
		{[]string{"lead", "a", "--fair", "--", "true"}, 64, `does not claim "fair"`},
		{[]string{"lead", "a", "--wait", "1s", "--", "true"}, 64, "unknown flag: --wait"},
		{[]string{"lead", "a", "--", "nosuch-command"}, 127, `coord: cannot run "nosuch-command"`},
		{[]string{"--url", "memory://", "lead", "a", "--", "true"}, 64, "would keep nobody out"},
	} {
		u.run(tt.args...).want(t, tt.code, "", tt.stderr)
	}
}

// One runs the command, and another one goes on when it is stopped.
func TestLeadHandsOver(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		const script = `echo up; echo $COORD_TOKEN; exec sleep 300`
		first := u.start("lead", "a", "--as", "one:1", "--", "sh", "-c", script)
		token := <-first.lines
		u.run("status", "a").want(t, 0, "holder      one:1 (pid "+strconv.Itoa(first.cmd.Process.Pid)+")\n", "")
		second := u.begin(u.command("lead", "a", "--as", "two:2", "--", "sh", "-c", script))
		if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		first.end().want(t, 143, "", "")
		second.await("up")
		if next := <-second.lines; number(t, next) <= number(t, token) {
			t.Errorf("term %s after %s", next, token)
		}
		if err := second.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		second.end().want(t, 143, "", "")
		u.run("status", "a").want(t, 3, "free", "")
	})
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// catching is a command that says TERM when it gets it, and ends with 5.
const catching = `exec 2>/dev/null; trap 'echo TERM; exit 5' TERM; echo up; while :; do sleep 0.02; done`

// signal sends a signal to coord.
func (r *running) signal(sig os.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
}

// breakTerm breaks the term of a coord lead. A busy machine may have lost it before.
func (u *user) breakTerm() {
	u.t.Helper()
	if r := u.run("break", "a"); r.code != 0 && r.code != 3 {
		u.t.Fatalf("coord break: exit status %d: %s", r.code, r.stderr)
	}
}

// A term that is lost ends the command, and the next one starts it again.
func TestLeadAgain(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		r := u.start("lead", "a", "--ttl", "3s", "--", "bash", "-c", catching)
		for range 2 {
			u.breakTerm()
			for line := ""; line != "up"; { // it says TERM in between, if it is not killed before
				select {
				case line = <-r.lines:
				case <-time.After(time.Minute):
					t.Fatal("it does not lead again")
				}
			}
		}
		r.signal(syscall.SIGTERM)
		end := r.end()
		losses := strings.Count(end.stderr, `coord: this machine does not lead "a" any more`)
		if losses < 2 || end.code != 5 && (losses == 2 || end.code != 143) { // it waited, after a loss that nobody made
			t.Errorf("exit status %d after %d losses, want 5 after 2; stderr: %s", end.code, losses, end.stderr)
		}
	})
}

// A signal while coord waits ends it, also after a term that was lost. One that was for the command only does not.
func TestLeadInterruptedWait(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		r := u.start("lead", "a", "--ttl", "6s", "--", "bash", "-c", catching)
		rival := u.begin(u.command("lock", "a", "--", "sh", "-c", "echo up; cat"))
		u.breakTerm()
		for leads := true; leads; {
			select {
			case line := <-r.lines:
				if line == "up" { // the rival did not wait yet
					u.breakTerm()
				}
			case <-rival.lines:
				leads = false
			case <-time.After(time.Minute):
				t.Fatal("nobody has the key")
			}
		}
		r.signal(syscall.SIGCONT)
		r.signal(syscall.SIGTERM)
		if end := r.end(); end.code != 143 {
			t.Errorf("exit status %d, want 143; stderr: %s", end.code, end.stderr)
		}
		if err := rival.in.Close(); err != nil {
			t.Fatal(err)
		}
		rival.end().want(t, 0, "", "")
		u.run("status", "a").want(t, 3, "free", "")
	})
}

// While the store is away the command is ended in time, and coord waits. It leads again when the store is back.
func TestLeadStoreAway(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	u := newUser(t, "redis://"+server.Addr)
	r := u.start("lead", "a", "--ttl", "2400ms", "--", "bash", "-c",
		`exec 2>/dev/null; trap 'echo TERM' TERM; echo $$ > pid; echo up; while :; do sleep 0.02; done`)
	server.Pause()
	r.await("TERM")
	text, err := os.ReadFile(u.dir + "/pid")
	if err != nil {
		t.Fatal(err)
	}
	awaitDeath(t, strings.TrimSpace(string(text)))
	server.Resume()
	r.await("up")
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = r.cmd.Wait() // it was killed
}

// While the store is away a signal ends the wait, the one after a term too.
func TestLeadInterruptedOutage(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	u := newUser(t, "redis://"+server.Addr)
	r := u.start("lead", "a", "--ttl", "2400ms", "--", "bash", "-c", catching)
	server.Pause()
	defer server.Resume()
	r.await("TERM")
	r.signal(syscall.SIGINT)
	if end := r.end(); end.code != 130 {
		t.Errorf("exit status %d, want 130; stderr: %s", end.code, end.stderr)
	}
}

// Who asks coord to end while its command ends because of a loss has asked it not to campaign again.
func TestLeadInterruptedLoss(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		r := u.start("lead", "a", "--ttl", "6s", "--", "bash", "-c", `exec 2>/dev/null; trap 'echo TERM' TERM; echo up; while :; do sleep 0.02; done`)
		u.breakTerm()
		r.await("TERM")
		r.signal(syscall.SIGTERM)
		if end := r.end(); end.code != 143 { // by KILL, which is not its own end
			t.Errorf("exit status %d, want 143; stdout: %s; stderr: %s", end.code, end.stdout, end.stderr)
		}
	})
}
