package main_test

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo terminal.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	// Not blocking, so that Close hangs up though somebody reads.
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// onTerminal starts coord as the foreground job of a terminal of its own, whose size is not known.
func (u *user) onTerminal(args ...string) (r *running, master io.Writer) {
	u.t.Helper()
	return u.onTerminalOf(0, 0, args...)
}

// onTerminalOf is onTerminal with a size.
func (u *user) onTerminalOf(columns, rows uint16, args ...string) (r *running, master io.Writer) {
	u.t.Helper()
	m, slave := terminal(u.t)
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		u.t.Fatal(err)
	}
	r = &running{t: u.t, cmd: u.command(args...), lines: make(chan string, 64), in: m}
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = slave, slave, slave
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := r.cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	if err := slave.Close(); err != nil {
		u.t.Fatal(err)
	}
	raw := make(chan string, 64)
	go readLines(m, raw)
	go func() {
		defer close(r.lines)
		for line := range raw {
			r.lines <- strings.TrimSuffix(line, "\r")
		}
	}()
	return r, m
}

// What a person types at the terminal reaches the command once, and so does what is sent to
// coord alone, as far as it can be told apart.
func TestLockTerminal(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.env = append(u.env, envRecorder+"=1")
	r, keys := u.onTerminal("lock", "a", "--", os.Args[0])
	r.await("up")
	for _, step := range []struct {
		what string
		do   func() error
		want string
	}{
		{"Ctrl-C", func() error { _, err := io.WriteString(keys, "\x03"); return err }, "INT"},
		{"Ctrl-\\", func() error { _, err := io.WriteString(keys, "\x1c"); return err }, "QUIT"},
		{"TERM to coord", func() error { return r.cmd.Process.Signal(syscall.SIGTERM) }, "TERM"},
		{"HUP to coord", func() error { return r.cmd.Process.Signal(syscall.SIGHUP) }, "HUP"},
		{"USR1 to coord", func() error { return r.cmd.Process.Signal(syscall.SIGUSR1) }, "USR1"},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		r.awaitContaining(step.want)
		// The command reads from the terminal, and has heard of nothing else.
		if _, err := fmt.Fprintf(keys, "after %s\n", step.what); err != nil {
			t.Fatal(err)
		}
		r.awaitContaining("after " + step.what) // the terminal's echo
		r.awaitContaining("after " + step.what) // the command's
	}
	if _, err := io.WriteString(keys, "\x04"); err != nil { // Ctrl-D
		t.Fatal(err)
	}
	if code := exitCode(t, r.cmd.Wait()); code != 9 {
		t.Errorf("exit status %d, want 9", code)
	}
	u.run("status", "a").want(t, 3, "free", "")
}

// awaitContaining waits for a line: the terminal shows keys like ^C before it.
func (r *running) awaitContaining(want string) {
	r.t.Helper()
	select {
	case line := <-r.lines:
		if !strings.HasSuffix(line, want) {
			r.t.Fatalf("the terminal shows %q, want %q", line, want)
		}
	case <-time.After(patience):
		r.t.Fatalf("the terminal does not show %q", want)
	}
}

// A lock whose time is over ends the command at a terminal, too.
func TestLockTerminalMaxHold(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	r, _ := u.onTerminal("lock", "a", "--max-hold", "5s", "--", "sh", "-c", "echo up; exec sleep 300")
	r.await("up")
	r.awaitContaining(`coord: the lock "a" reached its --max-hold of 5s: the command has ended`)
	if code := exitCode(t, r.cmd.Wait()); code != 74 {
		t.Errorf("exit status %d, want 74", code)
	}
}

// Standard error that is a terminal is one that a person reads.
func TestWaitOfAProcessAtATerminal(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	s, _ := u.hold("lock", "a")
	r, _ := u.onTerminal("lock", "a", "--", "echo", "ran")
	r.awaitContaining(fmt.Sprintf("coord: waiting: the lock \"a\" is taken by %s (pid %d)", host(t), os.Getpid()))
	s.release()
	r.await("ran")
	if code := exitCode(t, r.cmd.Wait()); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
}
