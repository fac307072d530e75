//go:build unix

package natskv

import (
	"net/url"
	"runtime"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

func TestConformance(t *testing.T) {
	srv := startServer(t)
	srv.create("coord")
	t.Logf("testserver: nats-server %s, %s, a child process", natsserver.VERSION, runtime.GOOS)
	open := func(tb conformance.TB, addr string) driver.Backend {
		b, err := Open(tb.Context(), &url.URL{Scheme: "nats", Host: addr, Path: "/coord"})
		if err != nil {
			tb.Fatalf("open: %v", err)
		}
		return b
	}
	faults := conformance.TCPFaults(srv.addr, open)
	faults.Kill = func(conformance.TB) { srv.kill() }
	faults.Restart = func(conformance.TB) { srv.start() }
	faults.Pause = func(conformance.TB) { srv.pause() }
	faults.Resume = func(conformance.TB) { srv.resume() }
	faults.Wipe = func(conformance.TB) { srv.wipe("coord") }
	// A client takes of its own clock only how much time has passed: to be ahead changes nothing.
	faults.Skew = func(tb conformance.TB, _ time.Duration) driver.Backend { return open(tb, srv.addr) }
	conformance.Run(t, conformance.Harness{
		Open:      func(tb conformance.TB) driver.Backend { return open(tb, srv.addr) },
		Claims:    Claims,
		Faults:    faults,
		WorkerURL: "nats://" + srv.addr + "/coord",
	})
}
