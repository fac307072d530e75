package main_test

import (
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// shell runs the scripts of the examples.
type shell struct {
	*user
	*serving
	path string
}

func (s shell) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.user.t.Context(), s.path, args...)
	cmd.Dir = s.dir
	cmd.Env = append(s.env, "COORD_SERVE="+s.url)
	return cmd
}

// run runs a script to its end.
func (s shell) run(script string, args ...string) result {
	s.user.t.Helper()
	var out, errs strings.Builder
	cmd := s.command(append([]string{example(s.user.t, "shell", script)}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	code := exitCode(s.user.t, cmd.Run())
	return result{code, out.String(), errs.String()}
}

// start starts coord-lock.sh, and waits until its command runs.
func (s shell) start(args ...string) *running {
	s.user.t.Helper()
	return s.startCommand(s.command(append([]string{example(s.user.t, "shell", "coord-lock.sh")}, args...)...))
}

// onShells runs the test with each shell.
func onShells(t *testing.T, test func(t *testing.T, s shell)) {
	t.Helper()
	need(t, "curl")
	for _, name := range []string{"dash", "bash"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := need(t, name)
			u := newRedisUser(t)
			test(t, shell{u, u.serve("limits: {supplier: 2/1h, quick: 2/1s}"), path})
		})
	}
}

// The command runs under the lock, with its token, input and output, and its status is that of the script.
func TestServeShell(t *testing.T) {
	t.Parallel()
	onShells(t, func(t *testing.T, s shell) {
		for _, flags := range [][]string{{"-w0"}, {"-s", "-w60"}} { // a stream's key is free a moment after the script
			with := func(args ...string) []string { return append(slices.Clip(flags), args...) }
			first := s.run("coord-lock.sh", with("job", "sh", "-c", "echo $COORD_TOKEN")...)
			second := s.run("coord-lock.sh", with("job", "sh", "-c", "echo $COORD_TOKEN")...)
			a, aerr := strconv.Atoi(strings.TrimSpace(first.stdout))
			b, berr := strconv.Atoi(strings.TrimSpace(second.stdout))
			if first.code != 0 || second.code != 0 || aerr != nil || berr != nil || b <= a {
				t.Errorf("%+v, then %+v", first, second)
			}
			s.run("coord-lock.sh", with("job", "sh", "-c", "exit 7")...).want(t, 7, "", "")
			if r := s.run("coord-lock.sh", with("job", "nothing-of-this-name")...); r.code != 127 {
				t.Errorf("no such command: %+v", r)
			}
			held := s.start(with("job", "sh", "-c", "echo up; cat; exit 3")...)
			if r := s.run("coord-lock.sh", with("-w", "1", "job", "echo", "wrong")...); r.code != 75 || r.stdout != "" {
				t.Errorf("a taken key: %+v", r)
			}
			if _, err := io.WriteString(held.in, "some input\n"); err != nil {
				t.Fatal(err)
			}
			held.await("some input")
			if r := held.close(); r.code != 3 {
				t.Errorf("%+v", r)
			}
			signalled := s.start(with("job", "sh", "-c", "trap 'exit 9' TERM; echo up; while :; do sleep 0.1; done")...)
			signalled.signal(syscall.SIGTERM)
			if r := signalled.end(); r.code != 9 {
				t.Errorf("TERM: %+v", r)
			}
		}
		s.run("coord-lock.sh", `a"b`, "true").want(t, 64, "", "KEY")
		s.run("coord-lock.sh", "-t", "1.5", "a", "true").want(t, 64, "", "TTL")
		s.run("coord-lock.sh", "a").want(t, 64, "", "usage")
	})
}

// stubborn is a command that heeds no signal that can be ignored, nor does what it has started. Its output ends when both
// have ended.
const stubborn = "trap '' TERM HUP INT; sleep 300 & echo up; wait"

// The command is ended when the server does not answer any more, with all that it has started.
func TestServeShellLoses(t *testing.T) {
	t.Parallel()
	onShells(t, func(t *testing.T, s shell) {
		const short = "lock: {ttl: 2s}"
		other := s.serve(short)
		for _, flags := range [][]string{{"-t", "2"}, {"-s"}} {
			killed := s.serve(short)
			s.url = killed.url
			r := s.start(append(flags, "job", "sh", "-c", stubborn)...)
			killed.signal(syscall.SIGKILL)
			if got := r.end(); got.code != 74 || !strings.Contains(got.stderr, "the lock job was lost") {
				t.Errorf("%v: %+v", flags, got)
			}
			s.url = other.url
			s.run("coord-lock.sh", "-w", "60", "job", "echo", "mine").want(t, 0, "mine", "")
		}
	})
}

// A script that is killed leaves no command behind, and no lock.
func TestServeShellKilled(t *testing.T) {
	t.Parallel()
	onShells(t, func(t *testing.T, s shell) {
		for _, flags := range [][]string{{"-t", "3600"}, {"-s"}} {
			s.env = append(s.env, "TMPDIR="+t.TempDir())
			r := s.start(append(flags, "job", "sh", "-c", stubborn)...)
			r.signal(syscall.SIGKILL)
			for range r.lines { // until nobody has its output
			}
			_ = r.cmd.Wait()
			s.run("coord-lock.sh", "-w", "60", "job", "echo", "mine").want(t, 0, "mine", "")
			dir := s.env[len(s.env)-1][len("TMPDIR="):]
			if !eventually(func() bool { left, err := os.ReadDir(dir); return err == nil && len(left) == 0 }) {
				t.Errorf("%v: files are left", flags)
			}
		}
	})
}

// A stream whose server ends gets its command ended.
func TestServeShellDrained(t *testing.T) {
	t.Parallel()
	onShells(t, func(t *testing.T, s shell) {
		r := s.start("-s", "job", "sh", "-c", stubborn)
		s.serving.signal(syscall.SIGTERM)
		if got := r.end(); got.code != 74 {
			t.Errorf("%+v", got)
		}
	})
}

// Permits are taken, and waited for.
func TestServeShellTakes(t *testing.T) {
	t.Parallel()
	onShells(t, func(t *testing.T, s shell) {
		s.run("coord-take.sh", "-n", "2", "supplier").want(t, 0, "", "")
		s.run("coord-take.sh", "supplier").want(t, 75, "", `"allowed":false`)
		s.run("coord-take.sh", "-w", "1", "supplier").want(t, 75, "", `"allowed":false`)
		s.run("coord-take.sh", "-n", "9", "supplier").want(t, 69, "", "exceeds_burst")
		for range 3 {
			s.run("coord-take.sh", "-w", "60", "quick").want(t, 0, "", "")
		}
		s.run("coord-take.sh").want(t, 64, "", "usage")
	})
}
