package main_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/coordgo/coord/internal/testserver"
)

// sharedStore is a store that several processes share.
type sharedStore struct {
	name string
	url  func(t *testing.T) string
	// kept: a lock can be kept taken after its process has ended.
	kept bool
	// clock: the store has one, and its tokens show it.
	clock bool
	// fair: waiters are in one line.
	fair bool
	// lists: what is held can be listed.
	lists bool
}

// One server of each store is shared by all tests that do not disturb it.
var redisShared, etcdShared, zooKeeperShared, memcachedShared, postgresShared testserver.Shared

// withServers runs the tests, and ends these servers.
func withServers(m interface{ Run() int }) int {
	for _, s := range []*testserver.Shared{&redisShared, &etcdShared, &zooKeeperShared, &memcachedShared, &postgresShared} {
		m = s.Main(m)
	}
	return m.Run()
}

func redisAddr(t *testing.T) string {
	t.Helper()
	return redisShared.Use(t, func(t testing.TB) *testserver.Server { return testserver.Redis(t) }).Addr
}

func etcdAddr(t *testing.T) string {
	t.Helper()
	return etcdShared.Use(t, func(t testing.TB) *testserver.Server { return testserver.Etcd(t) }).Addr
}

func zooKeeperAddr(t *testing.T) string {
	t.Helper()
	return zooKeeperShared.Use(t, func(t testing.TB) *testserver.Server {
		return testserver.ZooKeeper(t, testserver.WithConfig("maxClientCnxns=0"))
	}).Addr
}

// memcachedAddr is of a server that does not evict: one that does is warned of.
func memcachedAddr(t *testing.T) string {
	t.Helper()
	return memcachedShared.Use(t, func(t testing.TB) *testserver.Server {
		return testserver.Memcached(t, testserver.WithFlags("-M"))
	}).Addr
}

func postgresAddr(t *testing.T) string {
	t.Helper()
	return postgresShared.Use(t, func(t testing.TB) *testserver.Server { return testserver.Postgres(t) }).Addr
}

var sharedStores = []sharedStore{
	{"file", func(t *testing.T) string { return "file://" + filepath.Join(t.TempDir(), "store") }, true, true, false, true},
	{"redis", func(t *testing.T) string { return "redis://" + redisAddr(t) + "?dial_timeout=1m" }, true, true, true, true},
	{"etcd", func(t *testing.T) string { return "etcd://" + etcdAddr(t) + "?dial_timeout=1m" }, true, false, true, true},
	// The session is the lease.
	{"zookeeper", func(t *testing.T) string { return "zookeeper://" + zooKeeperAddr(t) + "?dial_timeout=1m" }, false, false, true, true},
	{"memcached", func(t *testing.T) string { return "memcached://" + memcachedAddr(t) + "?timeout=5s" }, true, false, false, false},
	{"postgres", func(t *testing.T) string {
		return testserver.PostgresURL(testserver.PostgresUser, postgresAddr(t)) + "&timeout=5s"
	}, true, true, true, true},
}

// prefixes numbers the prefixes of keys.
var prefixes atomic.Int64

// onStores runs the test on each of them, with keys of its own.
func onStores(t *testing.T, test func(t *testing.T, u *user)) {
	t.Helper()
	for _, s := range sharedStores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, newUserOf(t, s))
		})
	}
}

// newRedisUser is newUser on the shared Redis, with keys of its own.
func newRedisUser(t *testing.T) *user {
	t.Helper()
	return newUserOf(t, sharedStores[1])
}

func newUserOf(t *testing.T, s sharedStore) *user {
	t.Helper()
	u := newUser(t, s.url(t))
	u.store = s
	u.env = append(u.env, fmt.Sprintf("COORD_PREFIX=t%d/", prefixes.Add(1)))
	return u
}
