package main_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A command that runs as another user cannot be ended by coord. coord says so at once, and keeps the
// lock beyond --max-hold until the command has ended: two are never at work.
func TestLockCommandOfAnotherUser(t *testing.T) {
	setuid := setuidBinary(t)
	u := newNobody(t)
	u.env = append(u.env, envEscape+"=user")
	r := u.start("lock", "a", "--max-hold", "5s", "--grace", "100ms", "--", setuid)
	pid, err := strconv.Atoi(<-r.lines)
	if err != nil {
		t.Fatal(err)
	}
	warning := fmt.Sprintf(`coord: under the lock "a": signal killed does not reach the command (pid %d), which may go on: operation not permitted`, pid)
	if !eventually(func() bool { return strings.Contains(r.stderr.String(), warning) }) {
		t.Fatalf("it wrote %q, and not %q", r.stderr, warning)
	}
	u.run("lock", "a", "--no-wait", "--", "true").want(t, 75, "", "is taken by")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	last := lastLine(r.end(), t, 74)
	if want := `coord: the lock "a" reached its --max-hold of 5s: the command has ended`; last != want {
		t.Errorf("it said %q, want %q", last, want)
	}
	u.run("lock", "a", "--no-wait", "--", "true").want(t, 0, "", "")
}

// lastLine checks the exit status, and gives the last line of standard error.
func lastLine(r result, t *testing.T, code int) (last string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit status %d, want %d; stderr: %s", r.code, code, r.stderr)
	}
	for lines := bufio.NewScanner(strings.NewReader(r.stderr)); lines.Scan(); {
		last = lines.Text()
	}
	return last
}

// A command that has left its process group is ended all the same.
func TestLockCommandLeftItsGroup(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.env = append(u.env, envEscape+"=group")
	r := u.start("lock", "a", "--max-hold", "5s", "--grace", "100ms", "--", os.Args[0])
	pid := <-r.lines
	r.end().want(t, 74, "", "reached its --max-hold of 5s")
	awaitDeath(t, pid)
}

// The kernel tells of a hang-up the leader of the session alone, which coord is under ssh -t: it
// passes the signal on.
func TestLockHangUp(t *testing.T) {
	u := newUser(t, "")
	r, master := u.onTerminal("lock", "a", "--", "bash", "-c", `trap 'echo HUP > hup; exit 3' HUP; echo up; while :; do sleep 0.05; done`)
	r.await("up")
	if err := master.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.cmd.Wait() }()
	select {
	case err := <-ended:
		if code := exitCode(t, err); code != 3 {
			t.Errorf("exit status %d, want 3", code)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the command runs on without its terminal")
	}
	if text, err := os.ReadFile(filepath.Join(u.dir, "hup")); err != nil || string(text) != "HUP\n" {
		t.Errorf("the command noted %q, %v", text, err)
	}
}
