package main_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// findings are those of coord doctor --json, by name, and how it ended.
func (u *user) findings(args ...string) (map[string]driver.Finding, result) {
	u.t.Helper()
	r := u.run(append([]string{"doctor", "--json"}, args...)...)
	var c struct{ Checks []driver.Finding }
	if err := json.Unmarshal([]byte(r.stdout), &c); err != nil {
		u.t.Fatalf("%v: %+v", err, r)
	}
	byName := map[string]driver.Finding{}
	for _, f := range c.Checks {
		byName[f.Name] = f
	}
	return byName, r
}

// wantGood: nothing warns or fails, and these are ok.
func (u *user) wantGood(url string, names ...string) {
	u.t.Helper()
	found, r := u.findings("--strict", url)
	r.want(u.t, 0, "", "")
	for _, name := range append(names, "ping", "lock", "limit") {
		if f := found[name]; f.Level != driver.LevelOK {
			u.t.Errorf("%s: %+v, want ok; all: %s", name, f, r.stdout)
		}
	}
}

// wantBad: it finds this, and says what to do.
func (u *user) wantBad(url, name string, level driver.Level, text string) {
	u.t.Helper()
	found, r := u.findings("--strict", url)
	r.want(u.t, 1, "", "checks ")
	f := found[name]
	if f.Level != level || f.Remedy == "" || !strings.Contains(f.Text, text) {
		u.t.Errorf("%s: %+v, want %s and %q; all: %s", name, f, level, text, r.stdout)
	}
	fails := false
	for _, f := range found {
		fails = fails || f.Level == driver.LevelFail
	}
	code := 0
	if fails {
		code = 1
	}
	u.run("doctor", url).want(u.t, code, fmt.Sprintf("\n%-4s  %s ", level, name), "")
}

func TestDoctorRedis(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	good := testserver.Redis(t, testserver.Durable(), testserver.WithFlags("--maxmemory", "100mb"))
	u.wantGood("redis://"+good.Addr, "permissions", "role", "eviction", "memory", "persistence", "replicas", "clock")

	bad := testserver.Redis(t, testserver.WithFlags("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"))
	u.wantBad("redis://"+bad.Addr, "eviction", driver.LevelFail, "allkeys-lru")
	u.wantBad("redis://"+bad.Addr, "persistence", driver.LevelWarn, "appendonly no")
	u.wantBad("redis://"+bad.Addr+"?wait_replicas=1", "replicas", driver.LevelFail, "no lock is granted")
	u.wantBad("redis://"+bad.Addr+"?wait_replicas=1", "lock", driver.LevelFail, "")
}

// Over the time of one server: its settings change.
func TestDoctorRedisSettings(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t, testserver.Durable())
	client := redis.NewClient(&redis.Options{Addr: srv.Addr})
	defer client.Close()
	u := newUser(t, "")
	for _, tt := range []struct {
		set   []any
		name  string
		level driver.Level
		text  string
	}{
		{[]any{"appendfsync", "no"}, "persistence", driver.LevelWarn, "appendfsync no"},
		{[]any{"appendfsync", "always", "maxmemory-policy", "volatile-lru"}, "eviction", driver.LevelWarn, "as soon as maxmemory is set"},
		{[]any{"maxmemory-policy", "noeviction", "maxmemory", "1kb"}, "memory", driver.LevelWarn, "a full server"},
	} {
		if err := client.Do(t.Context(), append([]any{"config", "set"}, tt.set...)...).Err(); err != nil {
			t.Fatal(err)
		}
		u.wantBad("redis://"+srv.Addr, tt.name, tt.level, tt.text)
	}
}

func TestDoctorRedisUser(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t, testserver.Durable())
	client := redis.NewClient(&redis.Options{Addr: srv.Addr})
	defer client.Close()
	u := newUser(t, "")
	acl := func(rules ...any) {
		t.Helper()
		if err := client.Do(t.Context(), append([]any{"acl", "setuser", "app", "reset", "on", ">pw", "~coord:*"}, rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	url := "redis://app:pw@" + srv.Addr
	acl("&coord:wake:*", "+@all")
	u.wantGood(url, "permissions")
	acl("+@all", "-publish")
	u.wantBad(url, "permissions", driver.LevelWarn, "publish, subscribe")
	acl("&coord:wake:*", "+@all", "-info", "-config")
	found, r := u.findings(url)
	r.want(t, 0, "", "")
	if f := found["settings"]; f.Level != driver.LevelSkip || !strings.Contains(f.Text, "not checked") {
		t.Errorf("%+v, want it to say that it was not checked", f)
	}
}

func TestNightlyDoctorRedisReplicas(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	c := testserver.RedisSentinel(t)
	master := c.Leader()
	client := redis.NewClient(&redis.Options{Addr: master.Addr})
	defer client.Close()
	u.wantBad("redis://"+c.Followers(master)[0].Addr, "role", driver.LevelFail, "replica of")
	u.wantBad("redis://"+master.Addr, "replicas", driver.LevelWarn, "wait_replicas is not set")
	u.wantBad("redis://"+master.Addr, "min-replicas-to-write", driver.LevelWarn, "goes on granting")
	all := "redis+sentinel://" + strings.Join(c.Sentinels(), ",") + "/" + testserver.RedisSentinelMaster + "?wait_replicas=1"
	u.wantBad("redis+sentinel://"+c.Sentinels()[0]+"/"+testserver.RedisSentinelMaster, "sentinels", driver.LevelWarn, "there are 3")
	for _, set := range [][2]string{{"min-replicas-to-write", "1"}, {"appendonly", "yes"}} {
		if err := client.ConfigSet(t.Context(), set[0], set[1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	u.wantGood(all, "role", "replicas", "min-replicas-to-write", "sentinels")
}

func TestNightlyDoctorRedisCluster(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	c := testserver.RedisCluster(t, 0, testserver.Durable())
	url := "redis+cluster://" + strings.Join(c.Addrs(), ",")
	found, r := u.findings(url)
	r.want(t, 0, "", "")
	if found["cluster"].Level != driver.LevelOK || found["masters"].Level != driver.LevelOK {
		t.Errorf("of a whole cluster: %s", r.stdout)
	}
	u.wantBad(url, "replicas", driver.LevelWarn, "nothing takes over")
}

func TestNightlyDoctorEtcdCluster(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	c := testserver.EtcdCluster(t)
	all := "etcd://" + strings.Join(c.Addrs(), ",")
	u.wantGood(all, "members", "leader", "alarms", "space", "versions")
	u.wantBad("etcd://"+c.Nodes[0].Addr, "members", driver.LevelWarn, "1 of the addresses of 3 members")
	c.Nodes[0].Kill()
	u.wantBad(all, "members", driver.LevelWarn, c.Nodes[0].Addr)
}

// A server whose quota is used up.
func TestDoctorEtcdSpace(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	srv := testserver.Etcd(t, testserver.WithFlags("--quota-backend-bytes", "200000"))
	url := "etcd://" + srv.Addr
	for i := 0; ; i++ {
		r := u.run("--url", url, "limit", fmt.Sprint(strings.Repeat("k", 1000), i), "--rate", "1/1h")
		if r.code != 0 {
			break
		}
		if i > 1000 {
			t.Fatal("the quota is not used up")
		}
	}
	u.wantBad(url, "alarms", driver.LevelFail, "NOSPACE")
}

func TestDoctorZooKeeper(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	good := testserver.ZooKeeper(t, testserver.WithConfig("maxClientCnxns=60"))
	u.wantGood("zookeeper://"+good.Addr+"?dial_timeout=1m", "session", "ticks", "connections")
	u.wantBad("zookeeper://"+good.Addr+"?dial_timeout=1m&session_timeout=5m", "session", driver.LevelWarn, "the server grants 1m0s where 5m0s")

	silent := testserver.ZooKeeper(t, testserver.WithConfig("4lw.commands.whitelist=srvr", "maxClientCnxns=60"))
	found, r := u.findings("zookeeper://" + silent.Addr + "?dial_timeout=1m")
	r.want(t, 0, "", "")
	if f := found["settings"]; f.Level != driver.LevelSkip || !strings.Contains(f.Text, "not checked") {
		t.Errorf("%+v, want it to say that it was not checked", f)
	}

	few := testserver.ZooKeeper(t, testserver.WithConfig("maxClientCnxns=2"))
	u.wantBad("zookeeper://"+few.Addr+"?dial_timeout=1m", "connections", driver.LevelWarn, "of 2 from")
}

func TestNightlyDoctorZooKeeperEnsemble(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	c := testserver.ZooKeeperCluster(t)
	all := "zookeeper://" + strings.Join(c.Addrs(), ",") + "?dial_timeout=1m&session_timeout="
	u.wantGood(all+"60s", "ticks")
	u.wantBad(all+"2s", "ticks", driver.LevelWarn, "longer than a third of the session")
}

func TestDoctorMemcached(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	good := testserver.Memcached(t, testserver.WithFlags("-M"))
	u.wantGood("memcached://"+good.Addr, "eviction", "memory", "connections")
	bad := testserver.Memcached(t)
	u.wantBad("memcached://"+bad.Addr, "eviction", driver.LevelFail, "a full server evicts")
	few := testserver.Memcached(t, testserver.WithFlags("-M", "-c", "200"))
	for range 170 {
		conn, err := net.Dial("tcp", few.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	u.wantBad("memcached://"+few.Addr, "connections", driver.LevelWarn, "of 200")
	stays, gone := testserver.Memcached(t, testserver.WithFlags("-M")), testserver.Memcached(t, testserver.WithFlags("-M"))
	both := "memcached://" + stays.Addr + "," + gone.Addr + "?timeout=1s"
	gone.Kill()
	found, r := u.findings(both)
	if r.code == 0 || found["server"].Level != driver.LevelFail {
		t.Errorf("one of two servers is gone: %+v", r)
	}
}

// A store without checks has those of the doctor itself.
func TestDoctorText(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.run("doctor", "memory://").want(t, 0, "\nok    lock   works\n", "")
	u.run("doctor", "file://"+filepath.Join(u.dir, "store"), "--strict").want(t, 0, "\nok    clock  ", "")
	if _, err := os.Stat(filepath.Join(u.dir, "store")); err != nil {
		t.Error(err)
	}
}
