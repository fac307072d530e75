package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coordgo/coord/internal/testserver"
)

// binary is the command, built once. raced is the same with the race detector, if the tests have it: it takes three times as
// long to start, so that only the tests of the file store run it.
var binary, raced string

func TestMain(m *testing.M) {
	if os.Getenv(envRecorder) != "" {
		os.Exit(record())
	}
	if how := os.Getenv(envEscape); how != "" {
		os.Exit(escape(how))
	}
	heedSignals()
	os.Exit(runTests(m))
}

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

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "coord-cli-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary, raced = filepath.Join(dir, "coord"), filepath.Join(dir, "raced")
	if err := errors.Join(build(binary), build(raced, buildFlags...)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build(path string, flags ...string) error {
	args := append([]string{"build", "-o", path}, append(flags, ".")...)
	cmd := exec.Command("go", args...)
	if len(flags) > 0 {
		cmd.Env = append(cmd.Environ(), "CGO_ENABLED=1") // which the race detector needs
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// user runs coord as a user does, on one store and with an environment of the test's own.
type user struct {
	t      *testing.T
	binary string
	env    []string
	dir    string
	store  sharedStore
	attr   *syscall.SysProcAttr // of coord's process; nil: as the test runs
}

func newUser(t *testing.T, url string) *user {
	t.Helper()
	dir := t.TempDir()
	u := &user{t: t, binary: binary, dir: dir, env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GORACE=atexit_sleep_ms=0"}}
	if url != "" {
		u.env = append(u.env, "COORD_URL="+url)
	}
	return u
}

// sharedStore is a store that several processes share.
type sharedStore struct {
	name string
	url  func(t *testing.T) string
	// late is by how much a lease of whole seconds may outlast its end.
	late time.Duration
	// kept: a lock can be kept taken after its process has ended.
	kept bool
	// clock: the store has one, and its tokens show it.
	clock bool
	// fair: waiters are in one line.
	fair bool
	// lists: what is held can be listed.
	lists bool
}

var sharedStores = []sharedStore{
	{"file", func(t *testing.T) string { return "file://" + filepath.Join(t.TempDir(), "store") }, time.Second, true, true, false, false},
	{"redis", func(t *testing.T) string { return "redis://" + testserver.Redis(t).Addr + "?dial_timeout=1m" }, time.Second, true, true, true, true},
	{"etcd", func(t *testing.T) string { return "etcd://" + testserver.Etcd(t).Addr + "?dial_timeout=1m" }, 2 * time.Second, true, false, true, true},
	// The session is the lease.
	{"zookeeper", func(t *testing.T) string {
		return "zookeeper://" + testserver.ZooKeeper(t).Addr + "?session_timeout=3s&dial_timeout=1m"
	}, 4 * time.Second, false, false, true, true},
	// -M: a server that may evict is warned of.
	{"memcached", func(t *testing.T) string {
		return "memcached://" + testserver.Memcached(t, testserver.WithFlags("-M")).Addr + "?timeout=5s"
	}, 3 * time.Second, true, false, false, false},
	{"postgres", func(t *testing.T) string {
		return testserver.PostgresURL(testserver.PostgresUser, testserver.Postgres(t).Addr) + "&timeout=5s"
	}, time.Second, true, true, true, true},
}

// onStores runs the test on each of them.
func onStores(t *testing.T, test func(t *testing.T, u *user)) {
	for _, s := range sharedStores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, s.url(t))
			u.store = s
			if s.name == "file" {
				u.binary = raced
			}
			test(t, u)
		})
	}
}

// heavyTests are tests that start many processes, or judge how soon one starts: two at a time. More starve the server, and each
// other, on a machine of few cores.
var heavyTests = make(chan struct{}, 2)

// heavy waits for its turn to be one of two heavy tests, until the test ends.
func (u *user) heavy() {
	heavyTests <- struct{}{}
	u.t.Cleanup(func() { <-heavyTests })
}

// command is coord with these arguments, not started yet.
func (u *user) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(u.t.Context(), u.binary, args...)
	cmd.Env = u.env
	cmd.Dir = u.dir
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = u.attr
	return cmd
}

// result is how a run ended.
type result struct {
	code           int
	stdout, stderr string
}

func (u *user) run(args ...string) result {
	u.t.Helper()
	return u.pipe("", args...)
}

// pipe runs coord with a standard input.
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

// running is a coord that was started, with a command that has said that it runs.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string
	stderr *safeBuffer
}

// safeBuffer may be read while the process still writes.
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

// start starts coord and waits until the command's first line of output is "up".
func (u *user) start(args ...string) *running {
	u.t.Helper()
	return u.startCommand(u.command(args...))
}

// startCommand is start of a command that was made.
func (u *user) startCommand(cmd *exec.Cmd) *running {
	u.t.Helper()
	r := u.begin(cmd)
	r.await("up")
	return r
}

// begin starts a coord, which may have to wait.
func (u *user) begin(cmd *exec.Cmd) *running {
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
	select {
	case line, ok := <-r.lines:
		if !ok {
			r.t.Fatalf("it ended before it said %q; stderr: %s", want, r.stderr)
		}
		if line != want {
			r.t.Fatalf("it said %q, want %q", line, want)
		}
	case <-time.After(30 * time.Second):
		r.t.Fatalf("it did not say %q", want)
	}
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
