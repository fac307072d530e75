package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

// roles are what this program does as a child process of a test.
var roles = map[string]func(dir string) error{}

func runRole(role string) int {
	run := roles[role]
	if run == nil {
		fmt.Fprintf(os.Stderr, "role %q: unknown\n", role)
		return 2
	}
	if err := run(os.Getenv("COORD_FILE_DIR")); err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		return 1
	}
	return 0
}

// expect turns an answer that was not the expected one into an error.
func expect(got, want error) error {
	if !errors.Is(got, want) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// TestMain lets the test binary be one of the processes of a test, too.
func TestMain(m *testing.M) {
	conformance.WorkerMain()
	if role := os.Getenv("COORD_FILE_ROLE"); role != "" {
		os.Exit(runRole(role))
	}
	goleak.VerifyTestMain(m)
}

func newBackend(t *testing.T, dir string) backend {
	t.Helper()
	b, err := New(dir)
	if err != nil {
		t.Fatalf("New(%q): %v", dir, err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b.(backend)
}

func newStore(t *testing.T, dir string) *store {
	t.Helper()
	s, err := openStore(t.Context(), dir, sharedFS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// hung is from when on a call that should end is held not to.
const hung = time.Minute

func second[A any](_ A, err error) error { return err }

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func request(id string, ttl time.Duration) driver.Request { return driver.Request{ID: id, TTL: ttl} }

// put writes a cell.
func put(t *testing.T, s *store, n cas.Name, value string, keep time.Duration) {
	t.Helper()
	err := s.Update(t.Context(), n, func([]byte, time.Time) (cas.Change, error) {
		return cas.Change{Write: true, Value: []byte(value), Keep: keep}, nil
	})
	if err != nil {
		t.Fatalf("put %v: %v", n, err)
	}
}

// get reads a cell; ok is false if there is none.
func get(t *testing.T, s *store, n cas.Name) (value string, ok bool) {
	t.Helper()
	err := s.Update(context.WithoutCancel(t.Context()), n, func(old []byte, _ time.Time) (cas.Change, error) {
		value, ok = string(old), old != nil
		return cas.Change{}, nil
	})
	if err != nil {
		t.Fatalf("get %v: %v", n, err)
	}
	return value, ok
}
