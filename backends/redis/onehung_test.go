package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// partlyHung gives a cluster that serves while one of its masters, the last, does not answer.
func partlyHung(t *testing.T) (*testserver.Cluster, *testserver.Server) {
	t.Helper()
	c := testserver.RedisCluster(t, 0, silently)
	serveInParts(t, c)
	return c, c.Nodes[2]
}

// serveInParts lets a cluster serve the slots that have a master, while others have none.
func serveInParts(t *testing.T, c *testserver.Cluster) {
	t.Helper()
	for _, s := range c.Nodes {
		if err := connect(t, s.Addr).client.Do(t.Context(), "CONFIG", "SET", "cluster-require-full-coverage", "no").Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// slowCluster is a client as applications have it: its calls take seconds to fail.
func slowCluster(c *testserver.Cluster) redis.UniversalClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: c.Addrs(), ContextTimeoutEnabled: true, DisableRoutingPolicies: true,
		DialTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
	})
}

// TestNightlyRenewalsOfHealthyMasters: one master of a cluster does not answer. Renewals in one batch
// with its own are made on the others, of locks and of shared holds.
func TestNightlyRenewalsOfHealthyMasters(t *testing.T) {
	t.Parallel()
	c, hung := partlyHung(t)
	b := connectTo(t, slowCluster(c))
	for what, l := range map[string]driver.Locker{"lock": b, "shared": sharedLocker{b: b}} {
		t.Run(what, func(t *testing.T) {
			ctx := t.Context()
			var holds []driver.Hold
			for i := range 12 {
				r := shares("a", reader)
				if what == "lock" {
					r.Share = driver.Share{}
				}
				h := driver.Hold{Key: fmt.Sprint("k", i), Request: r}
				must[driver.Grant](t)(l.TryLock(ctx, h.Key, h.Request))
				holds = append(holds, h)
			}
			l.RenewAll(ctx, holds) // connections for batches
			hung.Pause()
			defer hung.Resume()
			bound, cancel := context.WithCancel(ctx)
			defer cancel()
			time.AfterFunc(time.Second, cancel)
			failed := 0
			for i, r := range l.RenewAll(bound, holds) {
				if b.Partition(holds[i].Key) == hung.Addr {
					failed++
					if r.Err == nil {
						t.Errorf("%s was renewed on a master that does not answer", holds[i].Key)
					}
				} else if r.Err != nil {
					t.Errorf("%s: %v", holds[i].Key, r.Err)
				}
			}
			if failed == 0 || failed == len(holds) {
				t.Fatalf("%d of %d holds are on the master that does not answer", failed, len(holds))
			}
		})
	}
}
