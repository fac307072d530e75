package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The program takes a permit of the limit on Redis, and leaves the lock free.
func TestRun(t *testing.T) {
	url = "redis://" + testserver.Redis(t).Addr
	main() // it exits the test's process if it fails
	client, err := coord.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r, err := client.Peek(t.Context(), "supplier", coord.PerMinute(2000))
	if err != nil || r.Remaining != 1999 {
		t.Errorf("%+v, %v: want 1999 permits left", r, err)
	}
	if _, err := client.TryLock(t.Context(), "invoices"); err != nil {
		t.Error(err)
	}
}
