package chaos

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/internal/testserver"
)

// How long each scenario lasts, and where its report is written. Without the first each break is made once.
const (
	forEnv     = "COORD_CHAOS"
	reportsEnv = "COORD_CHAOS_REPORTS"
)

// running has a place for each of the two scenarios that run side by side: a scenario waits most of the time.
var running = make(chan struct{}, 2)

// runScenario runs s on the cluster that start gives, by its URL and what breaks it.
func runScenario(t *testing.T, s Scenario, start func() (url string, breaks []Break)) {
	t.Helper()
	t.Parallel()
	running <- struct{}{}
	t.Cleanup(func() { <-running })
	var verdict error
	t.Cleanup(func() { // the last one to run, so that this stands behind the logs of the servers
		if verdict != nil {
			t.Logf("%s, once more: %v", s.Name, verdict)
		}
	})
	url, breaks := start()
	s.Breaks = breaks
	if v := os.Getenv(forEnv); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			t.Fatalf("%s=%q: %v", forEnv, v, err)
		}
		s.For = d
	}
	s.Log = t.Logf
	s.Die = diesOf(url)
	server := ""
	s.Open = func() (*coord.Client, error) {
		c, err := coord.Open(t.Context(), url, coord.WithLogger(slog.New(slog.DiscardHandler)))
		if err == nil {
			server = c.Info().Server
		}
		return c, err
	}
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.Server = server
	t.Log(r)
	if verdict = r.Err(); verdict != nil {
		t.Error(verdict)
	}
	if len(r.Breaks) < len(breaks) {
		t.Errorf("%d breaks, want each of %d at least once", len(r.Breaks), len(breaks))
	}
	if dir := os.Getenv(reportsEnv); dir != "" {
		data, err := json.MarshalIndent(r, "", "  ")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, s.Name+".json"), append(data, '\n'), 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// quorumBreaks are what may happen to a cluster of three that is led by one of them.
func quorumBreaks(c *testserver.Cluster) []Break {
	var victim *testserver.Server
	leader := func() *testserver.Server {
		victim = c.Leader()
		return victim
	}
	follower := func() *testserver.Server {
		victim = c.Followers(c.Leader())[0]
		return victim
	}
	return []Break{
		{Name: "leader killed", Break: func() { leader().Kill() }, Heal: func() { victim.Restart() }, Lasts: 2 * time.Second},
		{Name: "leader cut off from the others", Break: func() { c.Cut(leader()) }, Heal: c.Heal, Lasts: 3 * time.Second},
		{Name: "leader paused", Break: func() { leader().Pause() }, Heal: func() { victim.Resume() }, Lasts: 3 * time.Second},
		{Name: "follower cut off from all", Break: func() { c.Isolate(follower()) }, Heal: c.Heal, Lasts: 3 * time.Second},
		{Name: "majority cut off from all", Break: func() {
			for _, s := range c.Followers(c.Leader()) {
				c.Isolate(s)
			}
		}, Heal: c.Heal, Lasts: 3 * time.Second},
		{Name: "rolling restart", Break: func() {
			for _, s := range c.Nodes {
				s.Restart()
			}
		}},
	}
}

func TestChaosEtcd(t *testing.T) {
	runScenario(t, Scenario{Name: "etcd", TTL: 2 * time.Second}, func() (string, []Break) {
		c := testserver.EtcdCluster(t, testserver.WithNetwork())
		return "etcd://" + strings.Join(c.Addrs(), ","), quorumBreaks(c)
	})
}

func TestChaosZooKeeper(t *testing.T) {
	runScenario(t, Scenario{Name: "zookeeper", TTL: 2 * time.Second}, func() (string, []Break) {
		c := testserver.ZooKeeperCluster(t, testserver.WithNetwork())
		return "zookeeper://" + strings.Join(c.Addrs(), ",") + "?session_timeout=2s", quorumBreaks(c)
	})
}

// failoverBreaks are what may happen to a master with replicas. whole waits until all
// replicas have caught up.
func failoverBreaks(c *testserver.Cluster, nodes []*testserver.Server, whole func()) []Break {
	var victim *testserver.Server
	master := func() *testserver.Server {
		victim = c.Leader()
		return victim
	}
	return []Break{
		{Name: "master killed", Break: func() { master().Kill() }, Heal: func() { victim.Restart(); whole() }, Lasts: 3 * time.Second},
		{Name: "master paused", Break: func() { master().Pause() }, Heal: func() { victim.Resume(); whole() }, Lasts: 3 * time.Second},
		{Name: "master cut off from the others", Break: func() { c.Cut(master()) }, Heal: func() { c.Heal(); whole() }, Lasts: 3 * time.Second},
		{Name: "master cut off from all", Break: func() { c.Isolate(master()) }, Heal: func() { c.Heal(); whole() }, Lasts: 3 * time.Second},
		{Name: "rolling restart", Break: func() {
			for _, s := range nodes {
				s.Restart()
				whole()
			}
		}},
	}
}

func TestChaosRedisSentinel(t *testing.T) {
	runScenario(t, Scenario{Name: "redis-sentinel", Lossy: true}, func() (string, []Break) {
		c := testserver.RedisSentinel(t, testserver.WithNetwork())
		url := "redis+sentinel://" + strings.Join(c.Sentinels(), ",") + "/" + testserver.RedisSentinelMaster
		return url, failoverBreaks(c, c.Nodes[:3], func() { c.AwaitReplicas(2) })
	})
}

func TestChaosRedisCluster(t *testing.T) {
	runScenario(t, Scenario{Name: "redis-cluster", Lossy: true}, func() (string, []Break) {
		c := testserver.RedisCluster(t, 1, testserver.WithNetwork())
		return "redis+cluster://" + strings.Join(c.Addrs()[:3], ","), failoverBreaks(c, c.Nodes, func() {
			if err := c.AwaitRedis(); err != nil {
				t.Error(err)
			}
		})
	})
}

// A synchronous replica has all that was acknowledged, so that nothing is lost when it takes over.
func TestChaosPostgresReplica(t *testing.T) {
	runScenario(t, Scenario{Name: "postgres-replica"}, func() (string, []Break) {
		primary := testserver.Postgres(t)
		replica := testserver.PostgresReplica(t, primary)
		primary.Synchronous(true)
		url := testserver.PostgresURL(testserver.PostgresUser, primary.Addr, replica.Addr)
		promote := func() {
			replica.Promote()
			primary, replica = replica, primary
		}
		follow := func() {
			replica.Follow(primary)
			primary.Synchronous(true)
		}
		return url, []Break{
			{Name: "primary killed, replica promoted", Break: func() { primary.Kill(); promote() }, Heal: follow, Lasts: 3 * time.Second},
			{Name: "primary paused, replica promoted", Break: func() { primary.Pause(); promote() }, Heal: follow, Lasts: 3 * time.Second},
			{Name: "replica paused", Break: func() { replica.Pause() }, Heal: func() { replica.Resume() }, Lasts: 3 * time.Second},
			{Name: "replica killed", Break: func() { replica.Kill() }, Heal: func() { replica.Restart(); primary.Synchronous(true) }, Lasts: 3 * time.Second},
			{Name: "primary killed", Break: func() { primary.Kill() }, Heal: func() { primary.Restart(); primary.Synchronous(true) }, Lasts: time.Second},
		}
	})
}
