// Package exampletest runs the examples as a person would: as programs.
package exampletest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// envRun makes a test's binary the example itself.
const envRun = "COORD_EXAMPLE_RUN"

// Main is what TestMain calls. The test's binary is the program too, so that what runs has been built with -race.
func Main(m *testing.M, program func()) {
	if os.Getenv(envRun) != "" {
		program()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// Command is the example with flags, not yet started. It does not outlive the test, and has three minutes.
func Command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, exe, args...)
	// A program that was built with -race sleeps for a second at its end, and so does each of its processes.
	cmd.Env = append(os.Environ(), envRun+"=1", "GORACE=atexit_sleep_ms=20 "+os.Getenv("GORACE"))
	// Its processes end when their input does.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// Run runs the example, and gives what it said. The error is that of exec: nil if it exited with 0.
func Run(t *testing.T, args ...string) (said string, err error) {
	t.Helper()
	cmd := Command(t, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	t.Logf("%v\n%s", args, out.String())
	if strings.Contains(out.String(), "DATA RACE") {
		t.Errorf("%v: a data race", args)
	}
	return out.String(), err
}

// Kept runs the example, which has to keep what it promises, and to say so.
func Kept(t *testing.T, want string, args ...string) {
	t.Helper()
	if said, err := Run(t, args...); err != nil || !strings.Contains(said, want) {
		t.Errorf("%v: %v: it has to say %q", args, err, want)
	}
}

// Broken runs the example, which has to find a promise broken.
func Broken(t *testing.T, args ...string) {
	t.Helper()
	if said, err := Run(t, args...); err == nil || !strings.Contains(said, "BROKEN") {
		t.Errorf("%v: %v: a promise had to be broken", args, err)
	}
}
