package testserver

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestPortsAreReserved: a port that was given is given to nobody else, though no server listens on it.
func TestPortsAreReserved(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files cannot be locked here")
	}
	given := map[string]bool{}
	for range 100 {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		if given[port] {
			t.Errorf("port %s was given twice", port)
		}
		given[port] = true
		if err := reserve(filepath.Join(os.TempDir(), "coord-test-ports"), port); err == nil {
			t.Errorf("port %s could be reserved a second time", port)
		}
	}
}
