package main_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// coordPath is this program under the name of coord.
var coordPath = sync.OnceValues(func() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(exe), "coord")
	if err := os.Symlink(exe, path); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return path, nil
})

// coord is the path of the command.
func (u *user) coord() string {
	u.t.Helper()
	if u.program != "" {
		return u.program
	}
	path, err := coordPath()
	if err != nil {
		u.t.Fatal(err)
	}
	return path
}

// command is coord as a process with these arguments, not started yet. It is killed if it does not end.
func (u *user) command(args ...string) *exec.Cmd {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), patience)
	u.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, u.coord(), u.somewhere(args)...)
	cmd.Env = u.env
	cmd.Dir = u.dir
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = u.attr
	return cmd
}

// process is run, as a process.
func (u *user) process(args ...string) result {
	u.t.Helper()
	return u.pipe("", args...)
}

// pipe is process with a standard input.
func (u *user) pipe(stdin string, args ...string) result {
	u.t.Helper()
	var out, errs bytes.Buffer
	cmd := u.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	code := exitCode(u.t, cmd.Run())
	return result{code, out.String(), errs.String()}
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	t.Fatal(err)
	return -1
}

// running is a coord that was started as a process.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string
	stderr *safeBuffer
}

// start starts coord and waits until the command's first line of output is "up".
func (u *user) start(args ...string) *running {
	u.t.Helper()
	return u.startCommand(u.command(args...))
}

// startCommand is start of a command that was made.
func (u *user) startCommand(cmd *exec.Cmd) *running {
	u.t.Helper()
	r := u.spawn(cmd)
	r.await("up")
	return r
}

// spawn starts a coord, which may have to wait.
func (u *user) spawn(cmd *exec.Cmd) *running {
	u.t.Helper()
	r := &running{t: u.t, cmd: cmd, lines: make(chan string, 64), stderr: new(safeBuffer)}
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		u.t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		u.t.Fatal(err)
	}
	r.cmd.Stderr = r.stderr
	if err := r.cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	go readLines(out, r.lines)
	return r
}

// await waits for a line of output.
func (r *running) await(want string) {
	r.t.Helper()
	if line := r.line(); line != want {
		r.t.Fatalf("it said %q, want %q; stderr: %s", line, want, r.stderr)
	}
}

// line is the next line of output.
func (r *running) line() string {
	r.t.Helper()
	select {
	case line, ok := <-r.lines:
		if !ok {
			r.t.Fatalf("it has ended; stderr: %s", r.stderr)
		}
		return line
	case <-time.After(patience):
		r.t.Fatalf("it says nothing; stderr: %s", r.stderr)
	}
	return ""
}

// signal sends a signal to coord.
func (r *running) signal(sig os.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
}

// close ends the input of the command, and waits for coord's end.
func (r *running) close() result {
	r.t.Helper()
	if err := r.in.Close(); err != nil {
		r.t.Fatal(err)
	}
	return r.end()
}

// end waits for the end, and gives what was written after the lines awaited.
func (r *running) end() result {
	r.t.Helper()
	var rest []string
	for line := range r.lines {
		rest = append(rest, line)
	}
	return result{exitCode(r.t, r.cmd.Wait()), strings.Join(rest, "\n"), r.stderr.String()}
}
