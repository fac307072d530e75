// Package exampletest runs the examples as a person would: as programs, on real stores.
package exampletest

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/internal/testserver"
)

// envRun makes a test's binary the example itself.
const envRun = "COORD_EXAMPLE_RUN"

// Main is what TestMain calls. The test's binary is the program too, so that what runs has been built with -race.
func Main(m *testing.M, program func()) {
	if os.Getenv(envRun) != "" {
		program()
		os.Exit(0)
	}
	// Examples mostly wait. A flag on the command line has the last word.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// Stores are those that processes can share.
var Stores = []string{"file", "redis", "etcd", "zookeeper", "memcached"}

// Few are enough where stores make no difference: one of files, and a server.
var Few = []string{"file", "redis"}

// On runs a test on each store of a list, on some at once: what an example does is mostly to wait.
func On(t *testing.T, stores []string, test func(t *testing.T, url string)) {
	for _, name := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, URL(t, name))
		})
	}
}

// URL is that of a store of the test's own.
func URL(t *testing.T, store string) string {
	t.Helper()
	switch store {
	case "memory":
		return "memory://example"
	case "file":
		return "file://" + t.TempDir()
	case "redis":
		return "redis://" + testserver.Redis(t).Addr
	case "etcd":
		return "etcd://" + testserver.Etcd(t).Addr
	case "zookeeper":
		return "zookeeper://" + testserver.ZooKeeper(t).Addr + "?session_timeout=2s"
	case "memcached":
		return "memcached://" + testserver.Memcached(t).Addr
	}
	t.Fatalf("no store is called %s", store)
	return ""
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

// Kept runs the example, which has to keep what it promises.
func Kept(t *testing.T, args ...string) (said string) {
	t.Helper()
	said, err := Run(t, args...)
	if err != nil {
		t.Errorf("%v: %v", args, err)
	}
	return said
}

// Broken runs the example, which has to find a promise broken.
func Broken(t *testing.T, args ...string) (said string) {
	t.Helper()
	said, err := Run(t, args...)
	if err == nil || !strings.Contains(said, "BROKEN") {
		t.Errorf("%v: %v: a promise had to be broken", args, err)
	}
	return said
}
