package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/internal/testserver"
)

var manyKeys = flag.Int("keys", 0, "over how many keys the life of each store goes; there is time then to wait for what is removed by the minute")

const (
	// decisions is how many are made on the limit of each key. Some are denied.
	decisions = 10
	// callers use one client at once.
	callers = 64
)

var lifeLimit = coord.Limit{Rate: decisions - 2, Per: 100 * time.Millisecond}

// counts are what is left at a server, by kind.
type counts map[string]int

func (c counts) String() string {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(c)) {
		all = append(all, fmt.Sprintf("%d %s", c[kind], kind))
	}
	return strings.Join(all, ", ")
}

// within reports whether nothing is more than it may be. What most does not name may not be there.
func (c counts) within(most counts) bool {
	for kind, n := range c {
		if n > most[kind] {
			return false
		}
	}
	return true
}

// A life is that of one store.
type life struct {
	store string
	// few is over how many keys it goes where -keys does not say.
	few int
	// start gives the URL, and a function that counts what is left.
	start func(*testing.T) (rawURL string, left func() counts)
	// most is what may be left of so many keys when all leases and periods are over, if there is time to wait
	// for what is removed by the minute, and if not.
	most func(keys int, patient bool) counts
	// patience is how long that takes at most.
	patience time.Duration
	// heap is how much more memory the client may have then.
	heap int
}

// ownServer keeps other tests away: all that is at the server is counted.
var ownServer = testserver.WithFlags()

var lives = []life{
	{
		store: "file", few: 3000, start: fileLife, heap: 8 << 20, patience: 10 * time.Second,
		// The cell of a lock keeps its token for an hour. Of cells that are not needed there are at most a third
		// as many, and those that came since a shard was swept.
		most: func(keys int, _ bool) counts { return counts{"locks": keys, "limits": keys/4 + 1600} },
	},
	{
		store: "redis", few: 2000, start: redisLife, heap: 8 << 20, patience: time.Minute,
		most: func(keys int, _ bool) counts { return counts{"fences": keys} }, // for an hour
	},
	{
		store: "memcached", few: 2000, start: memcachedLife, heap: 8 << 20, patience: time.Minute,
		most: func(keys int, _ bool) counts { return counts{"fences": keys, "lists of servers": 1} }, // for an hour
	},
	{
		store: "etcd", few: 2000, start: etcdLife, heap: 24 << 20, patience: 5 * time.Minute,
		most: func(keys int, patient bool) counts {
			if patient {
				return counts{"leases": 2}
			}
			return counts{"leases": 2 + keys/5000, "limits": keys} // for three minutes
		},
	},
	{
		store: "zookeeper", few: 2000, start: zookeeperLife, heap: 24 << 20, patience: 15 * time.Minute,
		most: func(keys int, patient bool) counts {
			if patient {
				return counts{"limits": 256 * 20}
			}
			return counts{"limits": keys}
		},
	},
}

// TestNightlyLives: what many keys, each used for a short time, leave behind at the server and in the client has a bound.
func TestNightlyLives(t *testing.T) {
	for _, l := range lives {
		t.Run(l.store, func(t *testing.T) {
			keys, patience, patient := l.few, min(l.patience, time.Minute), *manyKeys > 0
			if patient {
				keys, patience = *manyKeys, l.patience
			}
			rawURL, left := l.start(t)
			c, err := coord.Open(t.Context(), rawURL, coord.WithLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			spend(t, c, "first", callers)
			before, began := measure(), time.Now()
			spend(t, c, "key", keys)
			spent := time.Now()
			peak, most := left(), l.most(keys+callers, patient)
			got := peak
			for !got.within(most) && time.Since(spent) < patience {
				select {
				case <-time.After(time.Second):
				case <-t.Context().Done():
				}
				got = left()
			}
			after := measure()
			t.Logf("%d keys and %d decisions in %v left %v; %v later %v, and %d KB and %d goroutines in the client",
				keys, decisions*keys, spent.Sub(began).Round(time.Second), peak, time.Since(spent).Round(time.Second), got,
				(after.heap-before.heap)>>10, after.goroutines-before.goroutines)
			if !got.within(most) {
				t.Errorf("after %v there are %v at the server: want at most %v", patience, got, most)
			}
			if n := after.heap - before.heap; n > l.heap {
				t.Errorf("the client has %d bytes more: want at most %d", n, l.heap)
			}
			if n := after.goroutines - before.goroutines; n > 10 {
				t.Errorf("the client has %d goroutines more: want at most 10", n)
			}
		})
	}
	t.Run("memory", memoryLife)
}

// spend locks and unlocks each of so many keys, and makes decisions on its limit.
func spend(t *testing.T, c *coord.Client, name string, keys int) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := next.Add(1); i <= int64(keys) && !t.Failed(); i = next.Add(1) {
				key := name + strconv.FormatInt(i, 10)
				if err := use(t.Context(), c, key); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}
		})
	}
	all.Wait()
}

func use(ctx context.Context, c *coord.Client, key string) error {
	lock, err := c.TryLock(ctx, key)
	if err != nil {
		return err
	}
	if err := lock.Unlock(ctx); err != nil {
		return err
	}
	for range decisions {
		if _, err := c.Allow(ctx, key, lifeLimit); err != nil {
			return err
		}
	}
	return nil
}

// footprint is what this process has.
type footprint struct{ heap, goroutines int }

func measure() footprint {
	runtime.GC()
	runtime.GC() // what pools had
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{int(m.HeapAlloc), runtime.NumGoroutine()}
}

// memoryLife: the store in the process forgets what is over when it is used.
func memoryLife(t *testing.T) {
	const keys = 20_000
	synctest.Test(t, func(t *testing.T) {
		c, err := coord.New(memory.NewStore().Open())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		spend(t, c, "first", callers)
		before := measure()
		spend(t, c, "key", keys)
		peak := measure()
		const minutes = 3 * 64 // a key in use takes one shard along each minute
		for range minutes {
			time.Sleep(time.Minute)
			if err := use(t.Context(), c, "hot"); err != nil {
				t.Fatal(err)
			}
		}
		after := measure()
		t.Logf("%d keys and %d decisions left %d KB; %d minutes later %d KB", keys, decisions*keys,
			(peak.heap-before.heap)>>10, minutes, (after.heap-before.heap)>>10)
		if n := after.heap - before.heap; n > 1<<20 {
			t.Errorf("there are %d bytes more: want at most 1 MB", n)
		}
	})
}

func fileLife(t *testing.T) (string, func() counts) {
	dir := t.TempDir()
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}
	return u.String(), fileLeft(t, dir)
}

func fileLeft(t *testing.T, dir string) func() counts {
	return func() counts {
		n := counts{}
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			kind, _, cell := strings.Cut(filepath.Base(path), ",")
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if cell && err == nil {
				n[kind+"s"]++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

func redisLife(t *testing.T) (string, func() counts) {
	s := testserver.Redis(t, ownServer)
	return "redis://" + s.Addr, redisLeft(t, s.Addr)
}

func redisLeft(t *testing.T, addr string) func() counts {
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return func() counts {
		n := counts{}
		for keys := c.Scan(t.Context(), 0, "*", 1000).Iterator(); ; {
			if !keys.Next(t.Context()) {
				if err := keys.Err(); err != nil {
					t.Fatal(err)
				}
				return n
			}
			kind := "others"
			switch {
			case strings.HasSuffix(keys.Val(), ":fence"):
				kind = "fences"
			case strings.HasSuffix(keys.Val(), ":shared"):
				kind = "shared keys"
			}
			n[kind]++
		}
	}
}

func memcachedLife(t *testing.T) (string, func() counts) {
	s := testserver.Memcached(t, testserver.WithFlags("-M"))
	return "memcached://" + s.Addr, memcachedLeft(t, s)
}

func memcachedLeft(t *testing.T, s *testserver.Server) func() counts {
	return func() counts {
		n, now := counts{}, time.Now().Unix()
		for _, line := range s.Lines("lru_crawler metadump all") {
			key, rest, _ := strings.Cut(strings.TrimPrefix(line, "key="), " exp=")
			text, _, _ := strings.Cut(rest, " ")
			if end, err := strconv.ParseInt(text, 10, 64); err != nil {
				t.Fatalf("metadump: %q", line)
			} else if end <= now {
				continue // it is only not removed yet
			}
			key, err := url.PathUnescape(key)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case strings.HasPrefix(key, "coord/fence/"):
				n["fences"]++
			case strings.HasPrefix(key, "coord/shared/"):
				n["shared keys"]++
			case key == "coord/servers":
				n["lists of servers"]++
			default:
				n["others"]++
			}
		}
		return n
	}
}

func etcdLife(t *testing.T) (string, func() counts) {
	s := testserver.Etcd(t, ownServer)
	return "etcd://" + s.Addr, etcdLeft(t, s.Addr)
}

func etcdLeft(t *testing.T, addr string) func() counts {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return func() counts {
		n := counts{}
		for kind, prefix := range map[string]string{"locks": "coord/lock/", "limits": "coord/limit/", "keys": "coord/"} {
			r, err := c.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil {
				t.Fatal(err)
			}
			n[kind] = int(r.Count)
		}
		n["others"] = n["keys"] - n["locks"] - n["limits"]
		delete(n, "keys")
		r, err := c.Leases(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n["leases"] = len(r.Leases)
		return n
	}
}

func zookeeperLife(t *testing.T) (string, func() counts) {
	s := testserver.ZooKeeper(t, ownServer)
	return "zookeeper://" + s.Addr + "/left", zookeeperLeft(t, s.Addr, "/left")
}

func zookeeperLeft(t *testing.T, addr, root string) func() counts {
	c, _, err := zk.Connect([]string{addr}, time.Minute, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	under := func(path string) []string {
		names, _, err := c.Children(path)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			t.Fatal(err)
		}
		return names
	}
	return func() counts {
		n := counts{"locks": len(under(root + "/locks"))}
		for _, bucket := range under(root + "/limits") {
			n["limits"] += len(under(root + "/limits/" + bucket))
		}
		return n
	}
}

// postgresLeft counts the leases that are not over, and the sessions of others. Rows of those that are over stay until grants
// of any key remove them.
func postgresLeft(t *testing.T, addr string) counts {
	c, err := pgx.Connect(t.Context(), testserver.PostgresURL(testserver.PostgresUser, addr))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	n := counts{}
	for kind, rows := range map[string]string{
		"locks": "coord.locks WHERE state <> 'free' AND until > now()", "waiters": "coord.waiters WHERE until > now()",
		"holders":  "coord.holders WHERE until > now()",
		"sessions": "pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
	} {
		var count int
		if err := c.QueryRow(t.Context(), "SELECT count(*) FROM "+rows).Scan(&count); err != nil {
			t.Fatal(err)
		}
		n[kind] = count
	}
	return n
}
