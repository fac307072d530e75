package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/internal/testserver"
)

// quorumFaults are what may happen to a cluster of three that is led by one of them.
func quorumFaults(c *testserver.Cluster) []fault {
	var victim *testserver.Server
	leader := func() *testserver.Server {
		victim = c.Leader()
		return victim
	}
	follower := func() *testserver.Server {
		victim = c.Followers(c.Leader())[0]
		return victim
	}
	return []fault{
		{"leader killed", func() { leader().Kill() }, func() { victim.Restart() }, 2 * time.Second},
		{"leader cut off from the others", func() { c.Cut(leader()) }, c.Heal, 3 * time.Second},
		{"leader paused", func() { leader().Pause() }, func() { victim.Resume() }, 3 * time.Second},
		{"follower cut off from all", func() { c.Isolate(follower()) }, c.Heal, 3 * time.Second},
		{"majority cut off from all", func() {
			for _, s := range c.Followers(c.Leader()) {
				c.Isolate(s)
			}
		}, c.Heal, 3 * time.Second},
		{"rolling restart", func() {
			for _, s := range c.Nodes {
				s.Restart()
			}
		}, nil, 0},
	}
}

func TestChaosEtcd(t *testing.T) {
	run(t, func() nemesis {
		c := testserver.EtcdCluster(t, testserver.WithNetwork())
		return nemesis{url: "etcd://" + strings.Join(c.Addrs(), ","), faults: quorumFaults(c)}
	})
}

func TestChaosZooKeeper(t *testing.T) {
	run(t, func() nemesis {
		c := testserver.ZooKeeperCluster(t, testserver.WithNetwork())
		return nemesis{url: "zookeeper://" + strings.Join(c.Addrs(), ",") + "?session_timeout=2s", faults: quorumFaults(c)}
	})
}

// masterFaults are what may happen to a master with replicas. whole waits until all replicas have caught up.
func masterFaults(c *testserver.Cluster, nodes []*testserver.Server, whole func()) []fault {
	var victim *testserver.Server
	master := func() *testserver.Server {
		victim = c.Leader()
		return victim
	}
	heal := func() { c.Heal(); whole() }
	return []fault{
		{"master killed", func() { master().Kill() }, func() { victim.Restart(); whole() }, 3 * time.Second},
		{"master paused", func() { master().Pause() }, func() { victim.Resume(); whole() }, 3 * time.Second},
		{"master cut off from the others", func() { c.Cut(master()) }, heal, 3 * time.Second},
		{"master cut off from all", func() { c.Isolate(master()) }, heal, 3 * time.Second},
		{"rolling restart", func() {
			for _, s := range nodes {
				s.Restart()
				whole()
			}
		}, nil, 0},
	}
}

func TestChaosRedisSentinel(t *testing.T) {
	run(t, func() nemesis {
		c := testserver.RedisSentinel(t, testserver.WithNetwork())
		url := "redis+sentinel://" + strings.Join(c.Sentinels(), ",") + "/" + testserver.RedisSentinelMaster
		return nemesis{url: url, faults: masterFaults(c, c.Nodes[:3], func() { c.AwaitReplicas(2) })}
	})
}

func TestChaosRedisCluster(t *testing.T) {
	run(t, func() nemesis {
		c := testserver.RedisCluster(t, 1, testserver.WithNetwork())
		return nemesis{url: "redis+cluster://" + strings.Join(c.Addrs()[:3], ","), faults: masterFaults(c, c.Nodes, func() {
			if err := c.AwaitRedis(); err != nil {
				t.Error(err)
			}
		})}
	})
}

// A synchronous replica has all that was acknowledged, so that nothing is lost when it takes over.
func TestChaosPostgresReplica(t *testing.T) {
	run(t, func() nemesis {
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
		return nemesis{url: url, keeps: true, faults: []fault{
			{"primary killed, replica promoted", func() { primary.Kill(); promote() }, follow, 3 * time.Second},
			{"primary paused, replica promoted", func() { primary.Pause(); promote() }, follow, 3 * time.Second},
			{"replica paused", func() { replica.Pause() }, func() { replica.Resume() }, 3 * time.Second},
			{"replica killed", func() { replica.Kill() }, func() { replica.Restart(); primary.Synchronous(true) }, 3 * time.Second},
			{"primary killed", func() { primary.Kill() }, func() { primary.Restart(); primary.Synchronous(true) }, time.Second},
		}}
	})
}
