package main_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	command "github.com/coordgo/coord/cmd/coord"
	"github.com/coordgo/coord/cmd/internal/child"
	"github.com/coordgo/coord/cmd/internal/cli"
	"github.com/coordgo/coord/internal/demo"
)

// Most tests run the command in their own process: see user.run. What only a process shows, such as signals
// and exit statuses, is tested with one: the test binary under the name of coord.
func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == "coord":
		command.Main()
	case os.Getenv(envCaller) != "":
		call(os.Args[1:])
	case os.Getenv(envRecorder) != "":
		os.Exit(record())
	case os.Getenv(envEscape) != "":
		os.Exit(escape(os.Getenv(envEscape)))
	case len(os.Args) > 1 && os.Args[1] == demo.WorkerCommand:
		command.Main()
	}
	logging.Disable()
	log.SetOutput(logged)
	heedSignals()
	os.Exit(withServers(m))
}

// logged is what the library warns of, in all tests.
var logged = new(safeBuffer)

// heedSignals undoes what nohup and background jobs of shells do: a signal that this process
// ignores is ignored by its children too, and the tests send them.
func heedSignals() {
	heard := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(heard, s)
		}
	}
}

// user runs coord as a user does, on one store and with an environment of the test's own.
type user struct {
	t     *testing.T
	env   []string
	dir   string
	store sharedStore

	terminal bool                 // a person reads standard error
	program  string               // of coord as a process; "" is this one
	attr     *syscall.SysProcAttr // of that process; nil: as the test runs
}

func newUser(t *testing.T, url string) *user {
	t.Helper()
	dir := t.TempDir()
	u := &user{t: t, dir: dir, env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GORACE=atexit_sleep_ms=0"}}
	if url != "" {
		u.env = append(u.env, "COORD_URL="+url)
	}
	return u
}

// path is a file in the user's directory.
func (u *user) path(name string) string { return filepath.Join(u.dir, name) }

// write writes such a file.
func (u *user) write(name, text string) (path string) {
	u.t.Helper()
	if err := os.WriteFile(u.path(name), []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
	return u.path(name)
}

// somewhere gives the arguments of a user who means the store of this machine, unless another one is named.
func (u *user) somewhere(args []string) []string {
	named := func(s string) bool { return strings.HasPrefix(s, "COORD_URL") }
	if len(args) == 0 || slices.ContainsFunc(u.env, named) || !slices.Contains(local, args[0]) {
		return args
	}
	for _, arg := range args {
		if arg == "--" {
			break
		}
		if flag, _, _ := strings.Cut(arg, "="); flag == "--url" || flag == "--config" || flag == "--local" {
			return args
		}
	}
	return append([]string{"--local"}, args...)
}

// local are the commands that somewhere gives a store.
var local = []string{"lock", "lead", "acquire", "release", "limit", "status", "watch", "break"}

// result is how a run ended.
type result struct {
	code           int
	stdout, stderr string
}

// run runs coord in this process. The command after -- is "true", "echo" or "false", and no process.
func (u *user) run(args ...string) result {
	u.t.Helper()
	return u.runWith(nil, args...)
}

// runWith is run, where do is the command.
func (u *user) runWith(do func(held) int, args ...string) result {
	u.t.Helper()
	var out, errs safeBuffer
	code := u.runInto(&out, &errs, do, args...)
	return result{code, out.String(), errs.String()}
}

// runInto is runWith with other output.
func (u *user) runInto(stdout, stderr io.Writer, do func(held) int, args ...string) int {
	u.t.Helper()
	return cli.Run(u.t.Context(), cli.Coord(), cli.Program{
		Args: u.somewhere(args), Env: u.env, Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr,
		Runner: &runner{u.t, stdout, do}, CompleteIn: time.Minute,
	})
}

// want checks how a run ended: the status, and a part of what it wrote.
func (r result) want(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.stdout, stdout) || !strings.Contains(r.stderr, stderr) {
		t.Errorf("exit status %d, want %d\nstdout: %s\nwant it to have: %s\nstderr: %s\nwant it to have: %s",
			r.code, code, r.stdout, stdout, r.stderr, stderr)
	}
	if strings.Count(r.stderr, "\n") > 1 {
		t.Errorf("more than one line on standard error:\n%s", r.stderr)
	}
}

// runner runs a function instead of the command.
type runner struct {
	t      *testing.T
	stdout io.Writer
	do     func(held) int
}

// toldLost is the end of a command that was ended because its lease was about to end.
const toldLost = -1

// held is what a command has while it runs.
type held struct {
	env  map[string]string // that coord has added
	lost <-chan struct{}   // closed when its lock is lost
}

func (r *runner) Run(cmd child.Command, env []string, lock child.Lock, _ child.Limits, _ *child.Signals, _ func(error)) (int, child.Reason, error) {
	h := held{env: map[string]string{}, lost: lock.Done()}
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		h.env[name] = value
	}
	code := r.act(cmd, h)
	if lock.Err() != nil || code == toldLost {
		return 143, child.Lost, nil
	}
	return code, child.Untold, nil
}

func (r *runner) Become(cmd child.Command, _ *child.Signals) (int, error) {
	return r.act(cmd, held{}), nil
}

func (r *runner) act(cmd child.Command, h held) int {
	switch args := cmd.Args(); {
	case r.do != nil:
		return r.do(h)
	case args[0] == "echo":
		fmt.Fprintln(r.stdout, strings.Join(args[1:], " "))
	case args[0] == "false":
		return 1
	case args[0] != "true":
		r.t.Errorf("%q: want a process for it", args)
	}
	return 0
}

// session is a coord that runs in this process, beside the test.
type session struct {
	t         *testing.T
	lines     chan string // of its output
	stderr    *safeBuffer
	up        chan held // its command runs
	finish    chan int  // its command ends with this status; one whose lock is lost does so anyway
	interrupt context.CancelCauseFunc
	ended     chan int
}

// begin starts coord. A command after -- runs until it is told to end.
func (u *user) begin(args ...string) *session {
	u.t.Helper()
	ctx, interrupt := context.WithCancelCause(u.t.Context())
	s := &session{
		t: u.t, lines: make(chan string, 1024), stderr: new(safeBuffer),
		up: make(chan held, 64), finish: make(chan int, 1), interrupt: interrupt, ended: make(chan int, 1),
	}
	out, stdout := io.Pipe()
	go readLines(out, s.lines)
	p := cli.Program{Args: u.somewhere(args), Env: u.env, Stdin: strings.NewReader(""), Stdout: stdout, Stderr: s.stderr, Runner: &runner{u.t, stdout, s.act}, Terminal: u.terminal}
	go func() {
		code := cli.Run(ctx, cli.Coord(), p)
		_ = stdout.Close() // a pipe's never fails
		s.ended <- code
	}()
	return s
}

func (s *session) act(h held) int {
	s.up <- h
	select {
	case code := <-s.finish:
		return code
	case <-h.lost:
		return 143
	}
}

// hold is begin of a coord whose command runs when it returns.
func (u *user) hold(args ...string) (*session, held) {
	u.t.Helper()
	s := u.begin(append(args, "--", "true")...)
	return s, s.running()
}

// running waits until the command runs.
func (s *session) running() held {
	s.t.Helper()
	select {
	case h := <-s.up:
		return h
	case code := <-s.ended:
		s.t.Fatalf("it ended with %d before its command ran; stderr: %s", code, s.stderr)
	case <-time.After(patience):
		s.t.Fatalf("its command does not run; stderr: %s", s.stderr)
	}
	return held{}
}

// line is the next line of output.
func (s *session) line() string {
	s.t.Helper()
	select {
	case line, ok := <-s.lines:
		if !ok {
			s.t.Fatalf("it has ended; stderr: %s", s.stderr)
		}
		return line
	case <-time.After(patience):
		s.t.Fatalf("it says nothing; stderr: %s", s.stderr)
	}
	return ""
}

// says waits until it has written this on standard error.
func (s *session) says(text string) {
	s.t.Helper()
	if !eventually(func() bool { return strings.Contains(s.stderr.String(), text) }) {
		s.t.Fatalf("it does not say %q: %s", text, s.stderr)
	}
}

// signal is a signal to coord while it runs no command.
func (s *session) signal(sig syscall.Signal) { s.interrupt(child.Interrupted{Signal: sig}) }

// release ends the command with 0, and waits for coord's end.
func (s *session) release() {
	s.t.Helper()
	s.finish <- 0
	s.end().want(s.t, 0, "", "")
}

// end waits for the end, and gives what was written after the lines that were read.
func (s *session) end() result {
	s.t.Helper()
	var code int
	select {
	case code = <-s.ended:
	case <-time.After(patience):
		s.t.Fatalf("it does not end; stderr: %s", s.stderr)
	}
	var rest []string
	for line := range s.lines {
		rest = append(rest, line)
	}
	return result{code, strings.Join(rest, "\n"), s.stderr.String()}
}

// safeBuffer may be read while it is written.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
