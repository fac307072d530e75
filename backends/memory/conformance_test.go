package memory

import (
	"net/url"
	"testing"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

func TestConformance(t *testing.T) {
	const name = "conformance"
	u := &url.URL{Scheme: "memory", Host: name}
	open := func(tb conformance.TB) driver.Backend {
		b, err := Open(tb.Context(), u)
		if err != nil {
			tb.Fatalf("Open: %v", err)
		}
		return b
	}
	conformance.Run(t, conformance.Harness{
		Open:   open,
		Claims: Claims,
		// Another process that opens it has another store.
		WorkerURL: u.String(),
		Faults: &conformance.Faults{
			// The store has one clock, and its clients none.
			Skew: func(tb conformance.TB, _ time.Duration) driver.Backend { return open(tb) },
		},
	})
}
