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

// envEscape makes the test binary a command that gets out of reach: "user" becomes root, "group"
// joins the process group of its parent. Both ignore TERM.
const envEscape = "COORD_TEST_ESCAPE"

// escape says "up" and its pid, and runs until it is killed.
func escape(how string) int {
	var err error
	switch how {
	case "user":
		err = syscall.Setresuid(0, 0, 0)
	case "group":
		var group int
		if group, err = syscall.Getpgid(os.Getppid()); err == nil {
			err = syscall.Setpgid(0, group)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("up\n%d\n", os.Getpid())
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or the test ends
	return 9
}

const nobody = 65534

// unprivileged makes a user without privileges, and a copy of the test binary that belongs to root
// and runs as root for anybody.
func unprivileged(t *testing.T) (u *user, setuid string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("unsupported: only root can make a command that runs as another user")
	}
	u = newUser(t, "")
	open := func(dir string) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	open(filepath.Dir(u.dir))
	open(filepath.Dir(binary))
	if err := os.Chown(u.dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	tools := t.TempDir()
	open(tools)
	setuid = filepath.Join(tools, "setuid")
	text, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(setuid, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(setuid, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	u.attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return u, setuid
}

// A command that runs as another user cannot be ended by coord. coord says so at once, and keeps the
// lock beyond --max-hold until the command has ended: two are never at work.
func TestLockCommandOfAnotherUser(t *testing.T) {
	u, setuid := unprivileged(t)
	u.env = append(u.env, envEscape+"=user")
	r := u.start("lock", "a", "--max-hold", "400ms", "--grace", "100ms", "--", setuid)
	pid, err := strconv.Atoi(<-r.lines)
	if err != nil {
		t.Fatal(err)
	}
	warning := fmt.Sprintf(`coord: the command under the lock "a" has to end: signal killed does not reach the command (pid %d), which may go on: operation not permitted`, pid)
	if !eventually(func() bool { return strings.Contains(r.stderr.String(), warning) }) {
		t.Fatalf("it wrote %q, and not %q", r.stderr, warning)
	}
	u.run("lock", "a", "--no-wait", "--", "true").want(t, 75, "", "is taken by")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	last := lastLine(r.end(), t, 74)
	if want := `coord: the lock "a" reached its --max-hold of 400ms: the command was told to end, and has ended`; last != want {
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
	u := newUser(t, "")
	u.env = append(u.env, envEscape+"=group")
	r := u.start("lock", "a", "--max-hold", "1s", "--grace", "100ms", "--", os.Args[0])
	pid := <-r.lines
	r.end().want(t, 74, "", "reached its --max-hold of 1s")
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
