package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// listeners counts the connections that listen, of all nodes.
func listeners(t *testing.T, nodes ...*testserver.Server) (n int) {
	t.Helper()
	for _, s := range nodes {
		list := connect(t, s.Addr).client.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").String()
		n += strings.Count(list, " addr=")
	}
	return n
}

// TestNightlyEarsOfACluster: a client listens on each master that has a lock for which it waits, and on no
// other, until it is closed.
func TestNightlyEarsOfACluster(t *testing.T) {
	t.Parallel()
	c := testserver.RedisCluster(t, 0, silently)
	holder, waiting := connectTo(t, clusterClient(c, nil)), connectTo(t, clusterClient(c, nil))
	ctx := t.Context()
	masters := map[*testserver.Server]bool{}
	for i := 0; len(masters) < 3; i++ {
		key := fmt.Sprint("k", i)
		master := c.RedisMaster(c.RedisSlot(lockKey(key)))
		masters[master] = true
		held, r := request("h", time.Minute), request("w", time.Minute)
		must[driver.Grant](t)(holder.TryLock(ctx, key, held))
		w := waitFor(t, waiting, key, r, 1)
		eventually(t, "that it listens", waiting.waiters.isUp)
		if n := listeners(t, c.Nodes...); n != len(masters) {
			t.Errorf("%d connections listen to %d masters", n, len(masters))
		}
		if n := listeners(t, master); n != 1 {
			t.Errorf("%d listen on the master of the lock", n)
		}
		if err := holder.Unlock(ctx, key, held.ID); err != nil {
			t.Fatal(err)
		}
		grantOf(t, w)
	}
	if err := waiting.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "none after Close", func() bool { return listeners(t, c.Nodes...) == 0 })
}

// TestNightlyWaiterOfASlotThatMoves: a waiter whose lock moves to another master is still told, on the
// old one, and from its next sign of life on, on the new one.
func TestNightlyWaiterOfASlotThatMoves(t *testing.T) {
	t.Parallel()
	for name, follows := range map[string]bool{"told on the old master": false, "told on the new one": true} {
		t.Run(name, func(t *testing.T) {
			c := testserver.RedisCluster(t, 0, silently)
			holder, waiting := connectTo(t, clusterClient(c, nil)), connectTo(t, clusterClient(c, nil))
			waiting.waiters.every = time.Hour
			ctx := t.Context()
			held, r, next := request("h", time.Minute), request("w", time.Minute), request("next", time.Minute)
			must[driver.Grant](t)(holder.TryLock(ctx, "k", held))
			wait := func(r driver.Request, n int) <-chan answer {
				result := make(chan answer, 1)
				go func() { // what a slot that moves refuses passes
					g, err := lockAsTheCore(ctx, waiting, "k", r)
					result <- answer{g, err}
				}()
				wantQueued(t, holder, "k", n)
				return result
			}
			w := wait(r, 1)
			eventually(t, "that it listens", waiting.waiters.isUp)
			addrOf := func() string {
				waiting.waiters.mu.Lock()
				defer waiting.waiters.mu.Unlock()
				for _, w := range waiting.waiters.byNumber {
					if w.sub != nil { // it is in the queue
						return w.sub.addr
					}
				}
				return ""
			}
			slot := c.RedisSlot(lockKey("k"))
			target := otherMaster(c, slot)
			move := c.BeginRedisMove(slot, target)
			move.Keys()
			move.End()
			if follows {
				waiting.cluster.ReloadState(ctx)
				eventually(t, "that it listens to the new master", func() bool {
					signal(waiting.waiters.refreshNow)
					return addrOf() == target.Addr && waiting.waiters.isUp()
				})
			}
			w2 := wait(next, 2)
			if err := holder.Unlock(ctx, "k", held.ID); err != nil {
				t.Fatal(err)
			}
			grantOf(t, w)
			if err := holder.Unlock(ctx, "k", r.ID); err != nil {
				t.Fatal(err)
			}
			grantOf(t, w2)
		})
	}
}
