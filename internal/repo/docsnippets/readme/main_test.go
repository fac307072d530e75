package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/internal/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The program runs in memory, and on Redis when its URL says so.
func TestRun(t *testing.T) {
	for store, url := range map[string]func() string{
		"memory": func() string { return "memory://" },
		"redis":  func() string { return "redis://" + testserver.Redis(t).Addr },
	} {
		t.Run(store, func(t *testing.T) {
			if err := run(t.Context(), url()); err != nil {
				t.Error(err)
			}
		})
	}
}
