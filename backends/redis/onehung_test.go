package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// partlyHung gives a cluster that serves while one of its masters, the last, does not answer.
func partlyHung(t *testing.T) (*testserver.Cluster, *testserver.Server) {
	t.Helper()
	c := testserver.RedisCluster(t, 0, silently)
	for _, s := range c.Nodes {
		if err := connect(t, s.Addr).client.Do(t.Context(), "CONFIG", "SET", "cluster-require-full-coverage", "no").Err(); err != nil {
			t.Fatal(err)
		}
	}
	return c, c.Nodes[2]
}

// slowCluster is a client as applications have it: its calls take seconds to fail.
func slowCluster(c *testserver.Cluster) redis.UniversalClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: c.Addrs(), ContextTimeoutEnabled: true, DisableRoutingPolicies: true,
		DialTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
	})
}

// TestRenewalsOfHealthyMasters: one master of a cluster does not answer. Renewals in one batch
// with its own are made on the others.
func TestRenewalsOfHealthyMasters(t *testing.T) {
	c, hung := partlyHung(t)
	b := connectTo(t, slowCluster(c))
	ctx := t.Context()
	var holds []driver.Hold
	for i := range 12 {
		h := driver.Hold{Key: fmt.Sprint("k", i), Request: request("a", time.Minute)}
		must[driver.Grant](t)(b.TryLock(ctx, h.Key, h.Request))
		holds = append(holds, h)
	}
	b.RenewAll(ctx, holds) // connections for batches
	hung.Pause()
	defer hung.Resume()
	bound, cancel := context.WithCancel(ctx)
	defer cancel()
	time.AfterFunc(time.Second, cancel)
	failed := 0
	for i, r := range b.RenewAll(bound, holds) {
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
}

// TestOneHungMasterCostsOthersNothing: holds and waiters on all masters live through three times their
// TTL, but for those of the master that does not answer; and a client that comes meanwhile
// works on the others.
func TestOneHungMasterCostsOthersNothing(t *testing.T) {
	const ttl = 2 * time.Second
	c, hung := partlyHung(t)
	holder := must[*coord.Client](t)(coord.New(connectTo(t, slowCluster(c))))
	defer holder.Close()
	waiting := connectTo(t, slowCluster(c))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	healthy := map[string]*coord.Lock{}
	waits := map[string]<-chan answer{}
	for i := range 12 {
		key := fmt.Sprint("k", i)
		l := must[*coord.Lock](t)(holder.Lock(ctx, key, coord.TTL(ttl)))
		w := waitUnder(t, ctx, waiting, key, request("w", time.Minute), 1)
		if waiting.Partition(key) != hung.Addr {
			healthy[key], waits[key] = l, w
		}
	}
	hung.Pause()
	defer hung.Resume()
	began := time.Now()
	for {
		late, err := New(slowCluster(c))
		if err != nil {
			t.Fatalf("a client that comes meanwhile: %v", err)
		}
		for key := range healthy {
			if h := must[driver.Holder](t)(late.(*backend).Inspect(ctx, key)); h.Waiters != 1 {
				t.Errorf("%s: %d wait, want 1", key, h.Waiters)
			}
		}
		late.Close()
		late.(*backend).client.Close()
		if time.Since(began) > 3*ttl {
			break
		}
	}
	for key, l := range healthy {
		if err := l.Err(); err != nil {
			t.Errorf("%s was lost: %v", key, err)
			continue
		}
		if err := l.Unlock(ctx); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		grantOf(t, waits[key])
	}
}
