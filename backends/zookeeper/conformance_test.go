package zookeeper

import (
	"context"
	"errors"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// conformanceURL has sessions of which many cases await the end, and which last while the machine runs all cases at
// once: the library gives up a connection after two thirds of one.
func conformanceURL(addr string) string {
	return "zookeeper://" + addr + "/coord-test?session_timeout=3.5s"
}

// outlived are the cases in which a hold has to outlive a fault, or thousands of callers. A session is the lease of all
// its holds, and the machine must not end it. Cases of limits need no end of a session either, but where the store
// loses everything: a client makes a new session when the old one is over.
var outlived = []string{"LOCK-22", "LOCK-234", "LOCK-309"}

var wiped = []string{"LIMIT-16"}

// openFor opens the store for a case.
func openFor(tb conformance.TB, addr string) driver.Backend {
	id, _, _ := strings.Cut(tb.Name(), "/")
	if slices.Contains(outlived, id) || strings.HasPrefix(id, "LIMIT-") && !slices.Contains(wiped, id) {
		return openIn(tb, "zookeeper://"+addr+"/coord-test?session_timeout="+calmSession.String())
	}
	return openIn(tb, conformanceURL(addr))
}

// harness runs the suite on a server, or one of an ensemble.
func harness(srv *testserver.Server) conformance.Harness {
	open := openFor
	faults := conformance.TCPFaults(srv.Addr, open)
	// The clock is off, and has not learned for a while.
	faults.Skew = func(tb conformance.TB, ahead time.Duration) driver.Backend {
		b := open(tb, srv.Addr)
		forgetTime(b.(*backend), ahead)
		return b
	}
	faults.Collect = func(tb conformance.TB, key string, l driver.Limit) {
		b := open(tb, srv.Addr).(*backend)
		tb.Cleanup(func() { _ = b.Close() })
		for removed := 0; removed == 0; { // 0: somebody has written to it meanwhile
			old, over, err := b.isOver(tb.Context(), b.limitPath(key, l), math.MaxInt64)
			if err == nil && over {
				removed, err = b.sweep(tb.Context(), []litter{old})
			}
			if err != nil || !over {
				tb.Fatalf("collect: found %v, error %v", over, err)
			}
		}
	}
	if srv.Owned {
		faults.Kill = func(conformance.TB) { srv.Kill() }
		faults.Restart = func(conformance.TB) { srv.Restart() }
		faults.Pause = func(conformance.TB) { srv.Pause() }
		faults.Resume = func(conformance.TB) { srv.Resume() }
		faults.Wipe = func(conformance.TB) { srv.Wipe() }
		faults.Refuse = func(tb conformance.TB) { permit(tb, srv.Addr, zk.PermAll&^zk.PermCreate) }
		faults.Accept = func(tb conformance.TB) { permit(tb, srv.Addr, zk.PermAll) }
	}
	return conformance.Harness{
		Open:      func(tb conformance.TB) driver.Backend { return open(tb, srv.Addr) },
		Claims:    Claims,
		Faults:    faults,
		WorkerURL: conformanceURL(srv.Addr),
	}
}

// permit sets what clients may do with the parents of all locks and limits. Without PermCreate there is no node for a
// new key.
func permit(tb conformance.TB, addr string, perms int32) {
	u, err := url.Parse(conformanceURL(addr))
	if err != nil {
		tb.Fatalf("%v", err)
	}
	b, err := Open(context.Background(), u) // the context of tb may have ended
	if err != nil {
		tb.Fatalf("Open: %v", err)
	}
	for _, parent := range []string{b.(*backend).root + "/locks", b.(*backend).root + "/limits"} {
		if _, err := b.(*backend).conn.SetACL(parent, zk.WorldACL(perms), -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			tb.Fatalf("SetACL of %s: %v", parent, err)
		}
	}
	if err := b.Close(); err != nil {
		tb.Fatalf("close: %v", err)
	}
}

func openIn(tb conformance.TB, rawURL string) driver.Backend {
	u, err := url.Parse(rawURL)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	b, err := Open(tb.Context(), u)
	if err != nil {
		tb.Fatalf("Open: %v", err)
	}
	return b
}

func TestConformance(t *testing.T) {
	t.Parallel() // it mostly waits
	conformance.Run(t, harness(testserver.ZooKeeper(t, testserver.Durable())))
}
