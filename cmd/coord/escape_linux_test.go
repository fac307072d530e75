package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// envEscape makes the test binary a command that coord lock runs. Its value is the kind:
//
//   - plain: it ends at a signal
//   - group: it joins the process group of its parent
//   - user: it becomes root
//   - ignoring: no signal ends it that can be caught
//   - stopped: it stops itself
//   - detached: it starts a process with a session of its own
const envEscape = "COORD_TEST_ESCAPE"

// escape says "up", its pid, and the pid of what it has detached. Then it tells each signal, and each
// line of its input, until its input ends.
func escape(kind string) int {
	if err := become(kind); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	signals, lines := make(chan os.Signal, 8), make(chan string)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	fmt.Printf("up\n%d\n", os.Getpid())
	switch kind {
	case "stopped":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // it is seen whether it stops
	case "detached":
		rest := exec.Command(os.Args[0])
		rest.Env, rest.Stdin = append(os.Environ(), envEscape+"=rest"), os.Stdin
		rest.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := rest.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(rest.Process.Pid)
	}
	if kind != "detached" { // its child reads the input
		go readLines(os.Stdin, lines)
	}
	for {
		select {
		case sig := <-signals:
			fmt.Println(sig)
			if kind != "ignoring" && kind != "rest" {
				return 128 + int(sig.(syscall.Signal))
			}
		case line, ok := <-lines:
			if !ok {
				return 9
			}
			fmt.Println(line)
		}
	}
}

// become makes of this process what the kind says.
func become(kind string) error {
	switch kind {
	case "user":
		return syscall.Setresuid(0, 0, 0)
	case "group":
		group, err := syscall.Getpgid(os.Getppid())
		if err != nil {
			return err
		}
		return syscall.Setpgid(0, group)
	}
	return nil
}

const nobody = 65534

// copyOf makes a copy of the test binary that anybody may run.
func copyOf(t *testing.T, name string, mode os.FileMode) (path string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("unsupported: only root can make a command that runs as another user")
	}
	dir := t.TempDir()
	open(t, filepath.Dir(dir))
	open(t, dir)
	path = filepath.Join(dir, name)
	text, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// open lets everybody into a directory of the test.
func open(t *testing.T, dir string) {
	t.Helper()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

// newNobody makes a user without privileges.
func newNobody(t *testing.T, program string) *user {
	t.Helper()
	u := newUser(t, "")
	u.program = program
	open(t, filepath.Dir(u.dir))
	if err := os.Chown(u.dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	u.attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return u
}
