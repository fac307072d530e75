package main

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/coordgo/coord/cmd/internal/cli"
	"github.com/coordgo/coord/cmd/internal/conform"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/internal/testserver"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain() // a case starts this program again
	logging.Disable()
	os.Exit(m.Run())
}

// user runs the command in this process, with an environment and a directory of the test's own.
type user struct {
	t   *testing.T
	env []string
	dir string
}

func newUser(t *testing.T, url string) *user {
	t.Helper()
	dir := t.TempDir()
	u := &user{t, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, dir}
	if url != "" {
		u.env = append(u.env, "COORD_URL="+url)
	}
	return u
}

// path is a file in the user's directory.
func (u *user) path(name string) string { return filepath.Join(u.dir, name) }

// result is how a run ended.
type result struct {
	code           int
	stdout, stderr string
}

func (u *user) run(args ...string) result {
	u.t.Helper()
	var stdout bytes.Buffer
	r := u.runInto(u.t.Context(), &stdout, args...)
	r.stdout = stdout.String()
	return r
}

// runInto is run with another output, until ctx ends.
func (u *user) runInto(ctx context.Context, stdout io.Writer, args ...string) result {
	u.t.Helper()
	var stderr bytes.Buffer
	code := cli.Run(ctx, conform.Tool(), cli.Program{Args: args, Env: u.env, Stdin: strings.NewReader(""), Stdout: stdout, Stderr: &stderr})
	return result{code: code, stderr: stderr.String()}
}

// want checks how a run ended: the status, and a part of what it wrote.
func (r result) want(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.stdout, stdout) || !strings.Contains(r.stderr, stderr) || strings.Count(r.stderr, "\n") > 1 {
		t.Errorf("exit status %d, want %d\nstdout: %s\nwant it to have: %s\nstderr: %s\nwant it to have this, in one line: %s",
			r.code, code, r.stdout, stdout, r.stderr, stderr)
	}
}

// full is standard output on a disk that is full.
type full struct{}

func (full) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
}

func TestFullOutput(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	for _, args := range []string{"", "--help", "bench --url memory:// --for 10ms --run ^lock$", "run memory:// --run LIMIT-05"} {
		r := u.runInto(t.Context(), full{}, strings.Fields(args)...)
		r.want(t, 73, "", "coord-conform: write /dev/stdout: no space left on device\n")
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		u.run("bench", "memory://", "--for", "10ms", "--run", "^lock$", "--json", "/dev/full").want(t, 73, "", "--json: write /dev/full: no space left on device")
	}
}

// Neither command shows the password of its store, or writes it into a file.
func TestPasswordIsHidden(t *testing.T) {
	t.Parallel()
	const password = "m4rked"
	for name, addr := range map[string]string{"healthy": testserver.Redis(t, testserver.WithPassword(password)).Addr, "down": "127.0.0.1:1"} {
		u := newUser(t, "redis://:"+password+"@"+addr)
		for _, args := range []string{
			"run --run LIMIT-05|LOCK-02 --fast --verbose --report DIR/r.json --report DIR/r.md",
			"bench --for 10ms --run ^(lock|limit)$ --json DIR/b.json",
		} {
			r := u.run(strings.Fields(strings.ReplaceAll(args, "DIR", u.dir))...)
			if said := r.stdout + r.stderr; said == "" || strings.Contains(said, password) {
				t.Errorf("%s: %s: exit status %d\n%s", name, args, r.code, said)
			}
		}
		files := os.DirFS(u.dir)
		written, err := fs.Glob(files, "*")
		if err != nil || name == "healthy" && len(written) != 3 {
			t.Errorf("%s: it wrote %v, %v", name, written, err)
		}
		for _, file := range written {
			if text, err := fs.ReadFile(files, file); err != nil || bytes.Contains(text, []byte(password)) {
				t.Errorf("%s: %v: it is in %s:\n%s", name, err, file, text)
			}
		}
	}
}

// What it does not know, and help, are as those of coord.
func TestUsage(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.run("benhc").want(t, 64, "", `coord-conform: unknown command "benhc": did you mean bench?`)
	u.run("help", "exit-codes").want(t, 0, "a promise was broken", "")
	u.run("--help").want(t, 0, "coord-conform run redis://127.0.0.1:6379", "")
	u.run("completion", "--help").want(t, 0, "source <(coord-conform completion bash)", "")
}
