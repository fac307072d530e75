package redis

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/members"
	"github.com/coordgo/coord/internal/testserver"
)

func TestConformance(t *testing.T) {
	t.Parallel() // it mostly waits
	srv := testserver.Redis(t)
	open := func(tb conformance.TB, addr string) driver.Backend {
		return backendOver(tb, redis.NewClient(clientOptions(addr)))
	}
	faults := conformance.TCPFaults(srv.Addr, open)
	// The scripts read the server's clock. The client has none to be wrong.
	faults.Skew = func(tb conformance.TB, _ time.Duration) driver.Backend { return open(tb, srv.Addr) }
	if srv.Owned {
		faults.Kill = func(conformance.TB) { srv.Kill() }
		faults.Restart = func(conformance.TB) { srv.Restart() }
		faults.Pause = func(conformance.TB) { srv.Pause() }
		faults.Resume = func(conformance.TB) { srv.Resume() }
		faults.Wipe = func(tb conformance.TB) { wipe(tb, redis.NewClient(clientOptions(srv.Addr))) }
		faults.Refuse = func(tb conformance.TB) { setMaxMemory(tb, "1", srv) }
		faults.Accept = func(tb conformance.TB) { setMaxMemory(tb, "0", srv) }
	}
	conformance.Run(t, conformance.Harness{
		Open:      func(tb conformance.TB) driver.Backend { return open(tb, srv.Addr) },
		Claims:    Claims,
		Faults:    faults,
		WorkerURL: "redis://" + srv.Addr + "/0",
		Client:    true,
	})
}

// TestConformanceSentinel: the server that is killed or paused is the master, which
// sentinels replace meanwhile.
func TestConformanceSentinel(t *testing.T) {
	t.Parallel() // it mostly waits
	c := testserver.RedisSentinel(t, silently)
	open := func(tb conformance.TB, w *wire) driver.Backend { return backendOver(tb, sentinelClient(tb, c, w)) }
	var gone *testserver.Server
	settle := func() { c.AwaitReplicas(2) }
	conformance.Run(t, conformance.Harness{
		Open:   func(tb conformance.TB) driver.Backend { return open(tb, nil) },
		Claims: SentinelClaims,
		Faults: &conformance.Faults{
			Link: func(tb conformance.TB) (driver.Backend, conformance.Link) {
				w := newWire(tb)
				return open(tb, w), w.proxy
			},
			Skew: func(tb conformance.TB, _ time.Duration) driver.Backend { return open(tb, nil) },
			Kill: func(conformance.TB) { gone = c.Leader(); gone.Kill() },
			Failover: func(tb conformance.TB) {
				old := c.Leader()
				old.Kill()
				c.Leader()
				tb.Cleanup(func() { old.Restart(); settle() })
			},
			Restart: func(conformance.TB) { gone.Restart(); settle() },
			Pause:   func(conformance.TB) { gone = c.Leader(); gone.Pause() },
			Resume:  func(conformance.TB) { gone.Resume(); settle() },
			Wipe:    func(tb conformance.TB) { wipe(tb, redis.NewClient(clientOptions(c.Leader().Addr))) },
			Refuse:  func(tb conformance.TB) { setMaxMemory(tb, "1", c.Nodes[:3]...) },
			Accept:  func(tb conformance.TB) { setMaxMemory(tb, "0", c.Nodes[:3]...) },
		},
		WorkerURL: sentinelURL(c),
	})
}

// TestConformanceCluster: faults are those of all nodes at once.
func TestConformanceCluster(t *testing.T) {
	t.Parallel() // it mostly waits
	c := testserver.RedisCluster(t, 0, silently)
	open := func(tb conformance.TB, w *wire) driver.Backend { return backendOver(tb, clusterClient(c, w)) }
	each := func(do func(*testserver.Server)) func(conformance.TB) {
		return func(conformance.TB) {
			for _, s := range c.Nodes {
				do(s)
			}
		}
	}
	whole := func(do func(*testserver.Server)) func(conformance.TB) {
		return func(tb conformance.TB) {
			each(do)(tb)
			if err := c.AwaitRedis(); err != nil {
				tb.Fatalf("%v", err)
			}
		}
	}
	conformance.Run(t, conformance.Harness{
		Open:   func(tb conformance.TB) driver.Backend { return open(tb, nil) },
		Claims: ClusterClaims,
		Faults: &conformance.Faults{
			Link: func(tb conformance.TB) (driver.Backend, conformance.Link) {
				w := newWire(tb)
				return open(tb, w), w.proxy
			},
			Skew:    func(tb conformance.TB, _ time.Duration) driver.Backend { return open(tb, nil) },
			Kill:    each((*testserver.Server).Kill),
			Restart: whole((*testserver.Server).Restart),
			Pause:   each((*testserver.Server).Pause),
			Resume:  whole((*testserver.Server).Resume),
			Wipe: each(func(s *testserver.Server) {
				wipe(t, redis.NewClient(clientOptions(s.Addr)))
			}),
			Refuse: func(tb conformance.TB) { setMaxMemory(tb, "1", c.Nodes...) },
			Accept: func(tb conformance.TB) { setMaxMemory(tb, "0", c.Nodes...) },
		},
		WorkerURL: "redis+cluster://" + strings.Join(c.Addrs(), ","),
		Members:   masters(t),
	})
}

// masters are those of another cluster, which serves while one of them does not.
func masters(t *testing.T) *conformance.Members {
	cluster := sync.OnceValue(func() *testserver.Cluster {
		c := testserver.RedisCluster(t, 0, silently, testserver.WithNetworkIfAny())
		serveInParts(t, c)
		return c
	})
	at := func(key string) int {
		slot := cluster().RedisSlot(lockKey(key))
		return slices.IndexFunc([]int{1, 2, 3}, func(n int) bool { return slot < testserver.RedisSlots*n/3 })
	}
	whole := func(c *testserver.Cluster) {
		if err := c.AwaitRedis(); err != nil {
			t.Fatal(err)
		}
	}
	return members.OfCluster(cluster, whole, conformance.Members{
		Open:  func(tb conformance.TB) driver.Backend { return backendOver(tb, slowCluster(cluster())) },
		Count: 3, Bound: time.Second, LockAt: at, LimitAt: at,
		Empty: func(tb conformance.TB, i int) func() {
			s := cluster().Nodes[i]
			wipe(tb, redis.NewClient(clientOptions(s.Addr)))
			s.Restart()
			whole(cluster())
			return nil
		},
	})
}

// backendOver gives a backend over a client that the application closes.
func backendOver(tb conformance.TB, client redis.UniversalClient) driver.Backend {
	tb.Cleanup(func() {
		if err := client.Close(); err != nil {
			tb.Errorf("close the application's client: %v", err)
		}
	})
	b, err := patientNew(client)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	return b
}

// patientNew is New for many clients at once.
func patientNew(client redis.UniversalClient) (driver.Backend, error) {
	o := options{log: slog.New(slog.DiscardHandler)}
	if err := checkClient(client, &o); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	return newBackend(ctx, client, false, o)
}

// setMaxMemory gives servers so many bytes; with one byte they refuse what needs memory.
func setMaxMemory(tb conformance.TB, bytes string, servers ...*testserver.Server) {
	for _, s := range servers {
		client := redis.NewClient(clientOptions(s.Addr))
		if err := client.ConfigSet(context.Background(), "maxmemory", bytes).Err(); err != nil {
			tb.Fatalf("CONFIG SET maxmemory: %v", err)
		}
		if err := client.Close(); err != nil {
			tb.Fatalf("close: %v", err)
		}
	}
}

// wipe makes a server forget everything.
func wipe(tb interface{ Fatalf(string, ...any) }, client *redis.Client) {
	if err := client.FlushAll(context.Background()).Err(); err != nil {
		tb.Fatalf("FLUSHALL: %v", err)
	}
	if err := client.Close(); err != nil {
		tb.Fatalf("close: %v", err)
	}
}
