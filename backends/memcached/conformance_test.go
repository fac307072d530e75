package memcached

import (
	"log/slog"
	"testing"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

func TestConformance(t *testing.T) {
	srv := testserver.Memcached(t)
	open := func(tb conformance.TB, addr string) driver.Backend {
		client := newClient(addr)
		tb.Cleanup(func() {
			if err := client.Close(); err != nil {
				tb.Errorf("close the application's client: %v", err)
			}
		})
		b, err := New(client, WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			tb.Fatalf("New: %v", err)
		}
		return b
	}
	faults := conformance.TCPFaults(srv.Addr, open)
	if srv.Owned {
		faults.Kill = func(conformance.TB) { srv.Kill() }
		faults.Restart = func(conformance.TB) { srv.Restart() }
		faults.Pause = func(conformance.TB) { srv.Pause() }
		faults.Resume = func(conformance.TB) { srv.Resume() }
		faults.Wipe = func(tb conformance.TB) {
			if got := srv.Text("flush_all"); got[0] != "OK" {
				tb.Fatalf("flush_all: %q", got)
			}
		}
	}
	conformance.Run(t, conformance.Harness{
		Open:      func(tb conformance.TB) driver.Backend { return open(tb, srv.Addr) },
		Claims:    Claims,
		Faults:    faults,
		WorkerURL: "memcached://" + srv.Addr,
	})
}
