package file

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	faults := &conformance.Faults{
		// There is no server to kill: the cases open the store again after it, as
		// processes do after theirs have ended.
		Kill:    func(conformance.TB) {},
		Restart: func(conformance.TB) {},
	}
	dir := filepath.Join(diskFor(t, faults), "store")
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}
	open := func(tb conformance.TB) driver.Backend {
		b, err := New(dir)
		if err != nil {
			tb.Fatalf("New(%q): %v", dir, err)
		}
		return b
	}
	// The clock is the machine's time since boot, which is the same for all.
	faults.Skew = func(tb conformance.TB, _ time.Duration) driver.Backend { return open(tb) }
	// The directory goes as a whole: an open client has it locked.
	faults.Wipe = func(tb conformance.TB) {
		if err := os.RemoveAll(dir); err != nil {
			tb.Fatalf("wipe: %v", err)
		}
	}
	conformance.Run(t, conformance.Harness{
		Open:      open,
		Claims:    Claims,
		WorkerURL: u.String(),
		Embedded:  true,
		Faults:    faults,
	})
}

// diskFor gives a directory for the suite, and sets the hooks by which its disk is full, where there can be one.
var diskFor = func(t *testing.T, _ *conformance.Faults) string { return t.TempDir() }
