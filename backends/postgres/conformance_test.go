package postgres

import (
	"testing"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

func TestConformance(t *testing.T) {
	t.Parallel() // it mostly waits
	srv := ownServer(t)
	open := func(tb conformance.TB, addr string) driver.Backend { return openIn(tb, patientURL(t, addr)) }
	conformance.Run(t, conformance.Harness{
		Open:      func(tb conformance.TB) driver.Backend { return open(tb, srv.Addr) },
		Claims:    Claims,
		Faults:    faults(t, srv, open),
		WorkerURL: patientURL(t, srv.Addr),
	})
}

func faults(t *testing.T, srv *testserver.Server, open func(conformance.TB, string) driver.Backend) *conformance.Faults {
	f := conformance.TCPFaults(srv.Addr, open)
	// The server's clock counts. The client has none to be wrong.
	f.Skew = func(tb conformance.TB, _ time.Duration) driver.Backend { return open(tb, srv.Addr) }
	if !srv.Owned {
		return f
	}
	f.Kill = func(conformance.TB) { srv.Kill() }
	f.Restart = func(conformance.TB) { srv.Restart() }
	f.Pause = func(conformance.TB) { srv.Pause() }
	f.Resume = func(conformance.TB) { srv.Resume() }
	f.Wipe = func(tb conformance.TB) {
		admin(tb, superuser(t, srv.Addr), "TRUNCATE coord.locks, coord.waiters, coord.shares, coord.holders, coord.cells")
	}
	f.Refuse = func(tb conformance.TB) {
		admin(tb, superuser(t, srv.Addr), "REVOKE INSERT ON ALL TABLES IN SCHEMA coord FROM app")
	}
	f.Accept = func(tb conformance.TB) {
		admin(tb, superuser(t, srv.Addr), "GRANT INSERT ON ALL TABLES IN SCHEMA coord TO app")
	}
	return f
}
