package etcd

import (
	"context"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

func TestConformance(t *testing.T) {
	t.Parallel() // it mostly waits
	srv := testserver.Etcd(t, testserver.Durable())
	open := func(tb conformance.TB, addrs ...string) driver.Backend {
		client, err := clientv3.New(clientConfig(addrs...))
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
	faults := conformance.HTTP2Faults(srv.Addr, func(tb conformance.TB, addr string) driver.Backend { return open(tb, addr) })
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
		faults.Refuse = func(tb conformance.TB) { setAlarm(tb, srv.Addr, pb.AlarmRequest_ACTIVATE) }
		faults.Accept = func(tb conformance.TB) { setAlarm(tb, srv.Addr, pb.AlarmRequest_DEACTIVATE) }
	}
	patient := func(tb conformance.TB) driver.Backend {
		b := open(tb, srv.Addr)
		b.(*backend).making = hung // there is no other member that might answer sooner than this machine
		return b
	}
	conformance.Run(t, conformance.Harness{
		Open:      patient,
		Claims:    Claims,
		Faults:    faults,
		WorkerURL: "etcd://" + srv.Addr,
	})
}

// setAlarm raises or clears the alarm of a server whose space is used up.
func setAlarm(tb conformance.TB, addr string, action pb.AlarmRequest_AlarmAction) {
	client, err := clientv3.New(clientConfig(addr))
	if err != nil {
		tb.Fatalf("client: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), hung) // that of tb may have ended
	defer cancel()
	members, err := client.MemberList(ctx)
	if err != nil {
		tb.Fatalf("members: %v", err)
	}
	for _, m := range members.Members {
		ask := &pb.AlarmRequest{Action: action, MemberID: m.ID, Alarm: pb.AlarmType_NOSPACE}
		if _, err := pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(ctx, ask); err != nil {
			tb.Fatalf("alarm: %v", err)
		}
	}
	if err := client.Close(); err != nil {
		tb.Fatalf("close: %v", err)
	}
}
