//go:build unix

package adapter

import (
	"testing"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

func TestConformance(t *testing.T) {
	srv := startServer(t)
	open := func(_ conformance.TB, addr string) driver.Backend { return New(addr) }
	faults := conformance.TCPFaults(srv.addr, open)
	faults.Kill = func(conformance.TB) { srv.kill() }
	faults.Restart = func(conformance.TB) { srv.start() }
	faults.Pause = func(conformance.TB) { srv.pause() }
	faults.Resume = func(conformance.TB) { srv.resume() }
	faults.Wipe = func(conformance.TB) { srv.clear() }
	// No client looks at its own clock: to be ahead changes nothing.
	faults.Skew = func(tb conformance.TB, _ time.Duration) driver.Backend { return open(tb, srv.addr) }
	conformance.Run(t, conformance.Harness{
		Open:      func(tb conformance.TB) driver.Backend { return open(tb, srv.addr) },
		Claims:    Claims,
		Faults:    faults,
		WorkerURL: "kv://" + srv.addr,
	})
}
