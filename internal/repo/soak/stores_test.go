package soak

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// stores are the stores to soak, and how many servers of each run side by side.
var stores = []struct {
	name      string
	harnesses int
	harness   func(*testing.T) conformance.Harness
}{
	{"memory", 6, onMemory},
	{"file", 2, onFile},
	{"redis", 2, func(t *testing.T) conformance.Harness {
		s := testserver.Redis(t)
		return onServer(s, "redis", nil)
	}},
	{"memcached", 2, func(t *testing.T) conformance.Harness {
		s := testserver.Memcached(t, testserver.WithFlags("-M"))
		return onServer(s, "memcached", nil)
	}},
	{"etcd", 2, func(t *testing.T) conformance.Harness {
		s := testserver.Etcd(t, testserver.Durable())
		return onServer(s, "etcd", s.LoseData)
	}},
	{"zookeeper", 2, func(t *testing.T) conformance.Harness {
		s := testserver.ZooKeeper(t, testserver.Durable())
		return onServer(s, "zookeeper", s.Wipe)
	}},
}

func onMemory(*testing.T) conformance.Harness {
	s := memory.NewStore()
	return conformance.Harness{
		Open:   func(conformance.TB) driver.Backend { return s.Open() },
		Claims: memory.Claims,
	}
}

func onFile(t *testing.T) conformance.Harness {
	dir := t.TempDir()
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}
	return conformance.Harness{
		Open:      func(tb conformance.TB) driver.Backend { return open(tb, u.String()) },
		Claims:    all.Claims("file"),
		WorkerURL: u.String(),
		Faults: &conformance.Faults{
			Kill: func(conformance.TB) {}, Restart: func(conformance.TB) {}, // there is no server
			Wipe: func(tb conformance.TB) {
				entries, err := os.ReadDir(dir)
				for _, e := range entries {
					err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
				}
				if err != nil {
					tb.Fatalf("wipe: %v", err)
				}
			},
		},
	}
}

// onServer reaches a server over links that can be cut. One that the tests have started is also killed,
// stopped and, if wipe says how, emptied.
func onServer(s *testserver.Server, scheme string, wipe func()) conformance.Harness {
	at := func(addr string) string {
		if scheme == "zookeeper" {
			addr += "/soak?session_timeout=1300ms" // by default sessions last ten seconds, and so would each lease
		}
		return scheme + "://" + addr
	}
	openAt := func(tb conformance.TB, addr string) driver.Backend { return open(tb, at(addr)) }
	links := conformance.TCPFaults
	if scheme == "etcd" {
		links = conformance.HTTP2Faults
	}
	faults := links(s.Addr, openAt)
	if s.Owned {
		faults.Kill = func(conformance.TB) { s.Kill() }
		faults.Restart = func(conformance.TB) { s.Restart() }
		faults.Pause = func(conformance.TB) { s.Pause() }
		faults.Resume = func(conformance.TB) { s.Resume() }
		if wipe != nil {
			faults.Wipe = func(conformance.TB) { wipe() }
		}
	}
	return conformance.Harness{
		Open:   func(tb conformance.TB) driver.Backend { return openAt(tb, s.Addr) },
		Claims: all.Claims(scheme), Faults: faults, WorkerURL: at(s.Addr),
	}
}

func open(tb conformance.TB, rawURL string) driver.Backend {
	b, _, err := coord.OpenBackend(tb.Context(), rawURL)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	return b
}
