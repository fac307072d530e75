package memcached

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// Over a client of the backend's own, as a URL opens it.
func TestConformance(t *testing.T) {
	conform(t, func(tb conformance.TB, addr string) driver.Backend {
		u, err := url.Parse("memcached://" + addr)
		if err != nil {
			tb.Fatalf("%v", err)
		}
		b, err := Open(context.Background(), u)
		if err != nil {
			tb.Fatalf("Open: %v", err)
		}
		return b
	})
}

// Over a client that the application owns.
func TestConformanceOverAClient(t *testing.T) {
	conform(t, func(tb conformance.TB, addr string) driver.Backend {
		client := newClient(addr)
		tb.Cleanup(func() {
			if err := client.Close(); err != nil {
				tb.Errorf("close the application's client: %v", err)
			}
		})
		b, err := New(client)
		if err != nil {
			tb.Fatalf("New: %v", err)
		}
		return b
	})
}

func conform(t *testing.T, open func(conformance.TB, string) driver.Backend) {
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	faults := conformance.TCPFaults(srv.Addr, open)
	faults.Skew = func(tb conformance.TB, ahead time.Duration) driver.Backend {
		b := open(tb, srv.Addr)
		b.(*backend).clock = func() time.Time { return time.Now().Add(ahead) }
		return b
	}
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
