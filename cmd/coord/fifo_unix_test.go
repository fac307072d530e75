//go:build unix

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A signal ends a command that reads its configuration, or a secret, from a FIFO that gives nothing.
func TestSignalWhileReading(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	fifo, config := filepath.Join(u.dir, "fifo"), filepath.Join(u.dir, "coord.yaml")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte("url: 'redis://:${file:"+fifo+"}@127.0.0.1:1'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}
	for i, args := range []string{
		"--config fifo lock a -- true", "--config fifo limit a", "--config fifo status a", "--config fifo break a",
		"--config fifo watch a", "--config fifo doctor", "--config fifo demo", "--config fifo bench", "--config fifo conform",
		"--config fifo config check", "--config fifo config show",
		"--config coord.yaml lock a -- true", "--config coord.yaml limit a --rate 1/1s", "--config coord.yaml status a", "--config coord.yaml watch a",
	} {
		sig := signals[i%len(signals)]
		cmd := u.command(strings.Fields(args)...)
		out := new(safeBuffer)
		cmd.Stderr = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		writer, err := os.OpenFile(fifo, os.O_WRONLY, 0) // which is when coord has opened it
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		giveUp := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // the status is looked at
		giveUp.Stop()
		if code := shellStatus(cmd.ProcessState); code != 128+int(sig) || out.String() != "" {
			t.Errorf("coord %s: exit status %d after %v, want %d; stderr: %s", args, code, sig, 128+int(sig), out)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// shellStatus is the exit status as a shell gives it.
func shellStatus(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}
