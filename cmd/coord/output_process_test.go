//go:build unix

package main_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// devFull is a file on a disk that is full.
func devFull(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("unsupported: no /dev/full: %v", err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// A process has the same output.
func TestFullStdout(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	cmd := u.command("version")
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = devFull(t), &stderr
	if code := exitCode(t, cmd.Run()); code != 73 || stderr.String() != "coord: write /dev/stdout: no space left on device\n" {
		t.Errorf("exit status %d, want 73; stderr: %s", code, stderr.String())
	}
}

// fullPipe is a pipe that nobody reads.
func fullPipe(t *testing.T) *os.File {
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

// Standard error that blocks, or has lost its reader, changes nothing for a process either: it dies of no signal.
func TestBrokenStderrOfAProcess(t *testing.T) {
	t.Parallel()
	gone, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	u := newUser(t, "")
	for name, stderr := range map[string]*os.File{"a pipe without a reader": writer, "a full pipe": fullPipe(t)} {
		s, _ := u.hold("lock", "a")
		waiter := u.command("lock", "a", "-v", "--", "sh", "-c", "echo ran; exit 7")
		var out strings.Builder
		waiter.Stdout, waiter.Stderr = &out, stderr
		if err := waiter.Start(); err != nil {
			t.Fatal(err)
		}
		refused := u.command("lock", "a", "--no-wait", "--", "true")
		refused.Stderr = stderr
		if code := exitCode(t, refused.Run()); code != 75 {
			t.Errorf("%s: exit status %d, want 75", name, code)
		}
		s.release()
		if code := exitCode(t, waiter.Wait()); code != 7 || out.String() != "ran\n" {
			t.Errorf("%s: lock -v ended with %d, want 7; it wrote %q", name, code, out.String())
		}
	}
}
