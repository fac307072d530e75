package main

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/internal/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The program runs on a directory, and on Redis when one line of its file says so.
func TestRun(t *testing.T) {
	for _, tc := range []struct {
		store string
		url   func() string
	}{
		{"file", func() string { return "file://" + t.TempDir() }},
		{"redis", func() string { return "redis://" + testserver.Redis(t).Addr }},
	} {
		t.Run(tc.store, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "coord.yaml")
			if err := os.WriteFile(file, []byte("url: "+tc.url()+"\nlimits:\n  supplier: 3/1m\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := run(t.Context(), file); err != nil {
				t.Error(err)
			}
		})
	}
}
