package memcached

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// twoServers starts two servers, and gives their addresses as a URL lists them.
func twoServers(t testing.TB) (a, b *testserver.Server, list string) {
	t.Helper()
	a, b = testserver.Memcached(t, testserver.WithFlags("-M")), testserver.Memcached(t, testserver.WithFlags("-M"))
	return a, b, a.Addr + "," + b.Addr
}

// Partition names the server that the lock is stored on, over clients of both kinds.
func TestPartitionNamesTheServer(t *testing.T) {
	t.Parallel()
	s1, s2, list := twoServers(t)
	ring := new(memcache.ServerList) // gomemcache's own, which places keys in another way
	if err := ring.SetServers(s1.Addr, s2.Addr); err != nil {
		t.Fatal(err)
	}
	client := memcache.NewFromSelector(ring)
	client.Timeout, client.MaxIdleConns = 5*time.Second, defaultPool
	defer client.Close()
	over, err := New(client, WithSelector(ring), WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	for name, b := range map[string]*backend{
		"own": must[*backend](t)(openURL(t, "memcached://"+list)), "application's": over.(*backend),
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]bool{}
			for i := range 20 {
				key := fmt.Sprint(name, " key ", i) // the space is written otherwise in the store
				r := request("a", time.Minute)
				must[driver.Grant](t)(b.TryLock(t.Context(), key, r))
				part := b.Partition(key)
				seen[part] = true
				for _, srv := range []*testserver.Server{s1, s2} {
					there := strings.HasPrefix(srv.Text("get " + nameOf(key).key(lockKind))[0], "VALUE ")
					if there != (part == srv.Addr) {
						t.Errorf("%s is of part %q; on %s: %v", key, part, srv.Addr, there)
					}
				}
			}
			if len(seen) != 2 {
				t.Errorf("parts %v, want both servers", seen)
			}
		})
	}
	if part := connect(t, s1.Addr).Partition("k"); part != "" {
		t.Errorf("behind a client whose selector is not known: %q", part)
	}
}

// Ping asks all servers: it names each one that does not answer, and takes as long as one.
func TestPingAsksAllServers(t *testing.T) {
	t.Parallel()
	s1, s2, list := twoServers(t)
	b := must[*backend](t)(openURL(t, "memcached://"+list+"?timeout=5s"))
	s1.Pause()
	s2.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := b.Ping(ctx)
	if err == nil || !strings.Contains(err.Error(), s1.Addr) || !strings.Contains(err.Error(), s2.Addr) {
		t.Errorf("Ping with both silent: %v", err)
	}
	s1.Resume()
	s2.Resume()
}
