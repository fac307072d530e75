//go:build unix

package main_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A signal ends a command that reads its configuration, or a secret, from a FIFO that gives nothing.
func TestSignalWhileReading(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	fifo := u.path("fifo")
	config := u.write("coord.yaml", "url: 'redis://:${file:"+fifo+"}@127.0.0.1:1'\n")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}
	for i, args := range []string{
		"--config fifo lock a -- true", "--config fifo limit a", "--config fifo status a", "--config fifo break a",
		"--config fifo watch a", "--config fifo doctor", "--config fifo demo",
		"--config fifo config check", "--config fifo config show",
		"--config coord.yaml lock a -- true", "--config coord.yaml limit a --rate 1/1s", "--config coord.yaml status a", "--config coord.yaml watch a",
	} {
		sig := signals[i%len(signals)]
		args = strings.NewReplacer("fifo", fifo, "coord.yaml", config).Replace(args)
		s := u.begin(strings.Fields(args)...)
		writer, err := os.OpenFile(fifo, os.O_WRONLY, 0) // which is when coord has opened it
		if err != nil {
			t.Fatal(err)
		}
		s.signal(sig)
		if r := s.end(); r.code != 128+int(sig) || r.stderr != "" {
			t.Errorf("coord %s: exit status %d after %v, want %d; stderr: %s", args, r.code, sig, 128+int(sig), r.stderr)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
