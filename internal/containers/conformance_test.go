package containers

import (
	"errors"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go/log"

	"github.com/coordgo/coord/backends/etcd"
	"github.com/coordgo/coord/backends/memcached"
	"github.com/coordgo/coord/backends/postgres"
	"github.com/coordgo/coord/backends/redis"
	"github.com/coordgo/coord/backends/zookeeper"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain()
	log.SetDefault(log.NewNoopLogger())
	os.Exit(m.Run())
}

// conform runs the selected cases on a store in a container, as a URL opens it, beside those of another store: most of
// the time both wait.
func conform(t *testing.T, c *Container, claims driver.Claims, open driver.OpenFunc, rawURL func(addr string) string) {
	t.Helper()
	t.Parallel()
	openAt := func(tb conformance.TB, addr string) driver.Backend {
		u, err := url.Parse(rawURL(addr))
		if err != nil {
			tb.Fatalf("%v", err)
		}
		for deadline := time.Now().Add(time.Minute); ; { // a busy machine may not connect in time
			b, err := open(tb.Context(), u)
			if err == nil {
				return b
			}
			if !errors.Is(err, driver.ErrNotSent) || tb.Context().Err() != nil || time.Now().After(deadline) {
				tb.Fatalf("Open: %v", err)
			}
		}
	}
	faults := conformance.TCPFaults(c.Addr, openAt)
	if c.Store == "etcd" {
		faults = conformance.HTTP2Faults(c.Addr, openAt)
	}
	faults.Kill = func(conformance.TB) { c.Kill() }
	faults.Restart = func(conformance.TB) { c.Restart() }
	faults.Pause = func(conformance.TB) { c.Pause() }
	faults.Resume = func(conformance.TB) { c.Resume() }
	faults.Wipe = func(tb conformance.TB) {
		c.Wipe()
		if c.Store != "postgres" {
			return
		}
		b := openAt(tb, c.Addr)
		_, err := b.TryLock(tb.Context(), "wiped", driver.Request{ID: "wiped", TTL: time.Second}) // which makes the tables
		if err := errors.Join(err, b.Close()); err != nil {
			tb.Fatalf("%v", err)
		}
	}
	cases := 0 // the default
	if c.Store == "postgres" {
		cases = 2 // each of its connections is a process: of more cases at once a busy machine makes none in time
	}
	s := conformance.Suite{Only: selected(), Parallel: cases, Harness: conformance.Harness{
		Open:      func(tb conformance.TB) driver.Backend { return openAt(tb, c.Addr) },
		Claims:    claims,
		Faults:    faults,
		WorkerURL: rawURL(c.Addr),
	}}
	s.Test(t)
	tellSelection(t, c, s.Only)
}

// The longest come first.
func TestConformancePostgres(t *testing.T) {
	conform(t, Postgres(t), postgres.Claims, postgres.Open, func(addr string) string {
		return "postgres://postgres@" + addr + "/postgres?timeout=5s&sslmode=disable"
	})
}

func TestConformanceZooKeeper(t *testing.T) {
	// The library gives up a connection after two thirds of a session. It must not while the machine runs all cases.
	session := (25 * tick).String()
	conform(t, ZooKeeper(t), zookeeper.Claims, zookeeper.Open, func(addr string) string {
		return "zookeeper://" + addr + "/coord-test?session_timeout=" + session
	})
}

func TestConformanceRedis(t *testing.T) {
	conform(t, Redis(t), redis.Claims, redis.Open, func(addr string) string { return "redis://" + addr + "/0" })
}

func TestConformanceMemcached(t *testing.T) {
	conform(t, Memcached(t), memcached.Claims, memcached.Open, func(addr string) string { return "memcached://" + addr })
}

func TestConformanceEtcd(t *testing.T) {
	conform(t, Etcd(t), etcd.Claims, etcd.Open, func(addr string) string { return "etcd://" + addr })
}
