//go:build unix

package main_test

import (
	"strings"
	"syscall"
	"testing"
)

// catching is a command that says TERM when it gets it, and goes on.
const catching = `exec 2>/dev/null; trap 'echo TERM' TERM; echo up; while :; do sleep 0.02; done`

// The command's own end is coord's. A signal reaches the command, and its end is no loss.
func TestLeadRunsTheCommand(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.process("lead", "a", "--", "sh", "-c", `echo "$COORD_LOCK"; exit 7`).want(t, 7, "a\n", "")
	r := u.start("lead", "a", "--", "sh", "-c", "echo up; exec sleep 300")
	r.signal(syscall.SIGTERM)
	r.end().want(t, 143, "", "")
	u.run("status", "a").want(t, 3, "free", "")
}

// A leader that was stopped beyond its lease ends its command when it goes on, and starts it again in its next term.
// A signal ends the wait for that, if it was not for the command only.
func TestLeadProcessAgain(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	r := u.start("lead", "a", "--ttl", "2s", "--", "sh", "-c", "echo up; exec sleep 300")
	for losses := 1; losses <= 2; losses++ {
		r.signal(syscall.SIGSTOP)
		rival, _ := u.hold("lock", "a")
		r.signal(syscall.SIGCONT)
		if !eventually(func() bool { return strings.Count(r.stderr.String(), "does not lead") >= losses }) {
			t.Fatalf("it does not tell that it leads no more: %s", r.stderr)
		}
		if losses == 2 {
			r.signal(syscall.SIGCONT)
			r.signal(syscall.SIGTERM)
			if end := r.end(); end.code != 143 {
				t.Errorf("exit status %d, want 143; stderr: %s", end.code, end.stderr)
			}
		}
		rival.release()
		if losses == 1 {
			r.await("up")
		}
	}
	u.run("status", "a").want(t, 3, "free", "")
}

// Who asks coord to end while its command ends because of a loss has asked it not to campaign again.
func TestLeadInterruptedLoss(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	r := u.start("lead", "a", "--ttl", "15s", "--", "bash", "-c", catching)
	u.run("break", "a").want(t, 0, "took the lock", "")
	r.await("TERM") // and KILL is due in five seconds
	r.signal(syscall.SIGTERM)
	if end := r.end(); end.code != 143 { // by KILL, which is not its own end
		t.Errorf("exit status %d, want 143; stdout: %s; stderr: %s", end.code, end.stdout, end.stderr)
	}
}
