package main_test

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

// full is standard output on a disk that is full.
type full struct{}

func (full) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
}

// Every command tells that its output could not be written, and ends with 73.
func TestFullOutput(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	config := u.write("coord.yaml", "url: file://"+u.dir+"/store\n")
	held, _ := u.hold("lock", "held")
	for _, args := range []string{
		"", "--help", "help lock", "lock --help", "config", "completion bash", "__complete lo", "version", "version --json", "stores", "stores --json",
		"status a", "status a --json", "status held", "break held", "watch a", "watch a --json", "limit a --rate 1/1s --json",
		"limit a --rate 1/1s -n 0 --json", "doctor --local", "doctor --local --json", "demo", "config show", "config show --json", "config check " + config, "config schema",
	} {
		stderr := new(safeBuffer)
		code := u.runInto(full{}, stderr, nil, strings.Fields(args)...)
		want := "coord: write /dev/stdout: no space left on device\n"
		if strings.Contains(args, "--json") {
			want = `{"error":"write /dev/stdout: no space left on device","status":73}` + "\n"
		}
		if said := stderr.String(); code != 73 || said != want && !strings.HasPrefix(args, "__complete") {
			t.Errorf("coord %s: exit status %d, want 73; stderr: %s", args, code, said)
		}
	}
	held.finish <- 0
	held.end().want(t, 74, "", "was lost") // it was broken
}

// stuck is standard error that nobody reads.
type stuck struct{ ended chan struct{} }

func (s stuck) Write([]byte) (int, error) {
	<-s.ended
	return 0, io.ErrClosedPipe
}

// Standard error that takes nothing, or blocks, changes neither what happens to the command nor the exit status.
func TestBrokenStderr(t *testing.T) {
	broken := func(stderr io.Writer) func(t *testing.T, u *user, _ *embeddedStore) {
		return func(t *testing.T, u *user, _ *embeddedStore) {
			held, _ := u.hold("lock", "held")
			for _, tt := range []struct {
				code int
				args string
			}{
				{75, "lock held --no-wait -- true"},
				{75, "lock held -v --wait 1s -- true"}, // it tells whom it waits for, and waits
				{3, "break a"},
				{64, "nosuch"},
				{127, "lock a -- nosuch-command"},
				{1, "lock a -- false"},
			} {
				if code := u.runInto(io.Discard, stderr, nil, strings.Fields(tt.args)...); code != tt.code {
					t.Errorf("coord %s: exit status %d, want %d", tt.args, code, tt.code)
				}
			}
			held.release()
		}
	}
	t.Run("full", func(t *testing.T) { inFakeTime(t, broken(full{})) })
	t.Run("stuck", func(t *testing.T) {
		inFakeTime(t, func(t *testing.T, u *user, s *embeddedStore) {
			ended := make(chan struct{})
			defer close(ended)
			broken(stuck{ended})(t, u, s)
		})
	})
}
