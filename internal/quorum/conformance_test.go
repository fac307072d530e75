package quorum_test

import (
	"testing"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

// TestConformance runs the suite on a quorum of three stores in memory, which fail one by one and together.
func TestConformance(t *testing.T) {
	conformance.RunInFakeTime(t, harness)
}

func harness(tb conformance.TB) conformance.Harness {
	servers := []*server{newServer(), newServer(), newServer()}
	open := func(tb conformance.TB) driver.Backend { return openOn(tb, servers) }
	fault := func(begin func(*server) (end func())) conformance.MemberFault {
		return func(_ conformance.TB, i int) func() { return begin(servers[i]) }
	}
	each := func(do func(*server)) func(conformance.TB) {
		return func(conformance.TB) {
			for _, s := range servers {
				do(s)
			}
		}
	}
	probe := open(tb)
	defer probe.Close()
	return conformance.Harness{
		Open:   open,
		Claims: probe.Info().Claims,
		Faults: &conformance.Faults{
			Skew: func(tb conformance.TB, ahead time.Duration) driver.Backend {
				b := openOn(tb, servers)
				quorum.SetClock(b, ahead)
				return b
			},
			Kill:    each(func(s *server) { s.setDown(true) }),
			Restart: each(func(s *server) { s.setDown(false) }),
			Failover: func(tb conformance.TB) {
				servers[0].setDown(true)
				tb.Cleanup(func() { servers[0].setDown(false) })
			},
		},
		Members: &conformance.Members{
			Open:  open,
			Count: len(servers), Bound: quorum.CallBound,
			Hang:   fault(failures["hung"]),
			CutOff: fault(failures["down"]),
			Slow:   fault(failures["slow"]),
			Empty:  fault(func(s *server) func() { s.restart(); return nil }),
		},
	}
}

func openOn(tb conformance.TB, servers []*server) *quorum.Backend {
	var all []driver.Backend
	for _, s := range servers {
		l := &link{s: s}
		// Requests that leave together arrive together. Without any way to go the scheduler would say which one of an earlier
		// attempt comes after those of the next.
		l.extra.Store(int64(50 * time.Microsecond))
		all = append(all, l)
	}
	b, err := quorum.New(quorum.MaxTTL, all...)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	return b
}
