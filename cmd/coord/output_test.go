//go:build unix

package main_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coordgo/coord/internal/testserver"
)

// full is a file on a disk that is full.
func full(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("needs /dev/full: %v", err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// Every command tells that its output could not be written, and ends with 73.
func TestFullOutput(t *testing.T) {
	t.Parallel()
	full := full(t)
	u := newUser(t, "")
	config := filepath.Join(u.dir, "coord.yaml")
	if err := os.WriteFile(config, []byte("url: file://"+u.dir+"/store\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	held := u.start("lock", "held", "--", "sh", "-c", "echo up; cat")
	for _, args := range []string{
		"", "--help", "help lock", "lock --help", "config", "completion bash", "__complete lo", "version", "version --json", "stores", "stores --json",
		"status a", "status a --json", "status held", "break held", "watch a", "watch a --json", "limit a --rate 1/1s --json",
		"limit a --rate 1/1s -n 0 --json", "doctor", "doctor --json", "demo", "config show", "config show --json", "config check coord.yaml", "config schema",
		"bench --url memory:// --for 10ms --run ^lock$", "conform memory:// --run LIMIT-05",
	} {
		var stderr strings.Builder
		cmd := u.command(strings.Fields(args)...)
		cmd.Stdout, cmd.Stderr = full, &stderr
		const want = "coord: write /dev/stdout: no space left on device\n"
		if code := exitCode(t, cmd.Run()); code != 73 || stderr.String() != want && !strings.HasPrefix(args, "__complete") {
			t.Errorf("coord %s: exit status %d, want 73; stderr: %s", args, code, stderr.String())
		}
	}
	u.run("bench", "memory://", "--for", "10ms", "--run", "^lock$", "--json", "/dev/full").want(t, 73, "", "--json: write /dev/full: no space left on device")
	if err := held.in.Close(); err != nil {
		t.Fatal(err)
	}
	held.end().want(t, 74, "", "was lost") // it was broken
}

// stuck is a full pipe that nobody reads.
func stuck(t *testing.T) *os.File {
	t.Helper()
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(ends[0]) })
	if err := syscall.SetNonblock(ends[1], true); err != nil {
		t.Fatal(err)
	}
	for _, block := range [][]byte{make([]byte, 4096), make([]byte, 1)} {
		for {
			_, err := syscall.Write(ends[1], block)
			if errors.Is(err, syscall.EAGAIN) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := syscall.SetNonblock(ends[1], false); err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(ends[1]), "a full pipe")
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// Standard error that takes nothing, blocks, or has lost its reader changes neither what happens to the
// command nor the exit status.
func TestBrokenStderr(t *testing.T) {
	t.Parallel()
	u := newUser(t, "redis://"+testserver.Redis(t).Addr)
	gone, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	for name, stderr := range map[string]*os.File{"/dev/full": full(t), "a pipe without a reader": writer, "a full pipe": stuck(t)} {
		held := u.start("lock", "held", "--", "sh", "-c", "echo up; cat")
		run := func(code int, args ...string) {
			t.Helper()
			cmd := u.command(args...)
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, stderr
			if got := exitCode(t, cmd.Run()); got != code {
				t.Errorf("%s: coord %s: exit status %d, want %d", name, strings.Join(args, " "), got, code)
			}
		}
		run(75, "lock", "held", "--no-wait", "--", "true")
		run(3, "break", "a")
		run(64, "nosuch")
		run(127, "lock", "a", "--", "nosuch-command")
		run(74, "lock", "b", "--max-hold", "100ms", "--", "sleep", "60")
		waiter := u.command("lock", "held", "-v", "--", "sh", "-c", "echo ran; exit 7")
		var out strings.Builder
		waiter.Stdout, waiter.Stderr = &out, stderr
		if err := waiter.Start(); err != nil {
			t.Fatal(err)
		}
		// It has told whom it waits for before it waits.
		if !eventually(func() bool { return strings.Contains(u.run("status", "held", "--json").stdout, `"waiters": 1`) }) {
			t.Errorf("%s: nobody waits", name)
		}
		if err := held.in.Close(); err != nil {
			t.Fatal(err)
		}
		if code := exitCode(t, waiter.Wait()); code != 7 || out.String() != "ran\n" {
			t.Errorf("%s: lock -v ended with %d, want 7; it wrote %q", name, code, out.String())
		}
		held.end().want(t, 0, "", "")
	}
}
