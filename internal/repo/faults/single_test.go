package faults

import (
	"testing"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/internal/testserver"
)

// singleFaults gives the address of a relay to a server that is alone, and what may happen to the two.
func singleFaults(t *testing.T, s *testserver.Server) (addr string, faults []fault) {
	t.Helper()
	link, err := conformance.NewProxy(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	return link.Addr(), []fault{
		{"server killed", s.Kill, s.Restart, time.Second},
		{"server paused", s.Pause, s.Resume, 2 * time.Second},
		{"clients cut off", link.Cut, link.Heal, 2 * time.Second},
	}
}

// Redis writes down what it does before it answers, so that a restart loses nothing.
func TestChaosRedis(t *testing.T) {
	run(t, func() nemesis {
		addr, faults := singleFaults(t, testserver.Redis(t, testserver.Durable()))
		return nemesis{url: "redis://" + addr, keeps: true, faults: faults}
	})
}

// PostgreSQL writes down what it does before it answers.
func TestChaosPostgres(t *testing.T) {
	run(t, func() nemesis {
		addr, faults := singleFaults(t, testserver.Postgres(t))
		return nemesis{url: testserver.PostgresURL(testserver.PostgresUser, addr), keeps: true, faults: faults}
	})
}

// Memcached forgets all at a restart.
func TestChaosMemcached(t *testing.T) {
	run(t, func() nemesis {
		addr, faults := singleFaults(t, testserver.Memcached(t, testserver.WithFlags("-M")))
		return nemesis{url: "memcached://" + addr, faults: faults}
	})
}

// Files have no server that could break. Those who hold one are killed.
func TestChaosFile(t *testing.T) {
	run(t, func() nemesis {
		return nemesis{url: "file://" + t.TempDir(), keeps: true, faults: []fault{{name: "nothing but the death of holders", lasts: 2 * time.Second}}}
	})
}
