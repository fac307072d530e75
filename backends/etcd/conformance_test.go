package etcd

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

func TestConformance(t *testing.T) {
	srv := testserver.Etcd(t, testserver.Durable())
	open := func(tb conformance.TB, addr string) driver.Backend {
		client, err := clientv3.New(clientConfig(addr))
		if err != nil {
			tb.Fatalf("client: %v", err)
		}
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
	}
	faults := conformance.HTTP2Faults(srv.Addr, open)
	faults.Skew = func(tb conformance.TB, ahead time.Duration) driver.Backend {
		b := open(tb, srv.Addr)
		b.(*backend).limits.now = func() time.Time { return time.Now().Add(ahead) }
		return b
	}
	if srv.Owned {
		faults.Kill = func(conformance.TB) { srv.Kill() }
		faults.Restart = func(conformance.TB) { srv.Restart() }
		faults.Pause = func(conformance.TB) { srv.Pause() }
		faults.Resume = func(conformance.TB) { srv.Resume() }
		faults.Wipe = func(conformance.TB) { srv.LoseData() }
	}
	conformance.Run(t, conformance.Harness{
		Open:      func(tb conformance.TB) driver.Backend { return open(tb, srv.Addr) },
		Claims:    Claims,
		Faults:    faults,
		WorkerURL: "etcd://" + srv.Addr,
	})
}
