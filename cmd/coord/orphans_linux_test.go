package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// As process 1 of a container coord reaps what the command leaves behind, and still knows the status
// of the command.
func TestLockReapsAsProcess1(t *testing.T) {
	t.Parallel()
	unshare, err := exec.LookPath("unshare")
	if err != nil || os.Getuid() != 0 {
		t.Skip("unsupported: only root can make a namespace of processes, with unshare")
	}
	u := newUser(t, "")
	const script = `[ $PPID = 1 ] || { echo "the parent is $PPID"; exit 1; }
for i in 1 2 3 4 5 6 7 8; do sh -c 'sleep 0.01 &'; done
echo up
while [ "$(cat /proc/[0-9]*/stat 2>/dev/null | grep -c -e '(sleep)' -e ') Z ')" != 0 ]; do :; done
exit 7`
	cmd := u.command("lock", "a", "--", "sh", "-c", script)
	cmd.Args = append([]string{unshare, "--pid", "--fork", "--kill-child", "--mount-proc", u.coord()}, cmd.Args[1:]...)
	cmd.Path = unshare
	r := u.startCommand(cmd)
	r.end().want(t, 7, "", "")
}

// What the command leaves behind, detached from it, is told: it goes on without the lock.
func TestLockTellsWhatIsLeft(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	r := u.start("lock", "a", "--", "sh", "-c",
		"setsid sleep 300 >/dev/null 2>&1 & until grep -q '(sleep)' /proc/$!/stat; do :; done; echo up; echo $!; exit 5")
	var pid int
	if _, err := fmt.Sscan(<-r.lines, &pid); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }() // it has ended if the test failed
	want := fmt.Sprintf("coord: under the lock %q: the command has ended, but what it has started goes on without the lock: process %d (%q)\n", "a", pid, "sleep")
	if r := r.end(); r.code != 5 || r.stderr != want {
		t.Errorf("exit status %d, want 5; stderr %q, want %q", r.code, r.stderr, want)
	}
	u.run("lock", "a", "--no-wait", "--", "true").want(t, 0, "", "")
}
