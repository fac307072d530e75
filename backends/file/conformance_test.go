package file

import (
	"net/url"
	"path/filepath"
	"testing"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}
	conformance.Run(t, conformance.Harness{
		Open: func(tb conformance.TB) driver.Backend {
			b, err := New(dir)
			if err != nil {
				tb.Fatalf("New(%q): %v", dir, err)
			}
			return b
		},
		Claims:    Claims,
		WorkerURL: u.String(),
	})
}
