package testserver

import (
	"strings"
	"testing"
	"time"
)

func TestRedisCluster(t *testing.T) {
	for name, tt := range map[string]struct {
		replicas int
		opts     []Option
	}{
		"without replicas": {0, nil},
		"TLS and password": {0, []Option{WithTLS(), WithPassword("secret")}},
		"with replicas":    {1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			c := RedisCluster(t, tt.replicas, tt.opts...)
			t.Logf("formed in %v", time.Since(begun))
			if len(c.Addrs()) != 3+3*tt.replicas || c.Leader() != c.Nodes[0] || c.RedisMaster(RedisSlots-1) != c.Nodes[2] {
				t.Fatalf("nodes %v, the first slot at %s, the last at %s", c.Addrs(), c.Leader().Addr, c.RedisMaster(RedisSlots-1).Addr)
			}
			if tt.replicas == 0 {
				return
			}
			begun = time.Now()
			c.Nodes[0].Kill()
			if leader := c.Leader(); leader != c.Nodes[3] {
				t.Errorf("led by %s, want the replica", leader.Addr)
			}
			t.Logf("failed over in %v", time.Since(begun))
			c.Nodes[0].Restart()
			if err := c.AwaitRedis(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRedisSentinel(t *testing.T) {
	for name, opts := range map[string][]Option{
		"plain":            nil,
		"TLS and password": {WithTLS(), WithPassword("secret")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			c := RedisSentinel(t, opts...)
			t.Logf("formed in %v", time.Since(begun))
			first := c.Leader()
			if first != c.Nodes[0] || len(c.Sentinels()) != 3 {
				t.Fatalf("led by %s, sentinels %v", first.Addr, c.Sentinels())
			}
			if n, err := first.redisAll([]string{"SET", "k", "v"}, []string{"WAIT", "2", "1000"}); err != nil || n != "2" {
				t.Fatalf("%s replicas, %v", n, err)
			}
			begun = time.Now()
			first.Kill()
			second := c.Leader()
			t.Logf("failed over in %v", time.Since(begun))
			if got, err := second.redisDo("GET", "k"); err != nil || got != "v" || second == first {
				t.Errorf("the new master %s has %q, %v", second.Addr, got, err)
			}
			first.Restart()
			c.AwaitReplicas(2)
			if reply, err := first.redisDo("INFO", "replication"); err != nil || !strings.Contains(reply, "role:slave") {
				t.Errorf("the former master is no replica: %v, %s", err, reply)
			}
		})
	}
}

// A sentinel that lost sight of the master for a moment is waited for: it may be about to replace it.
func TestAwaitReplicasAwaitsSentinels(t *testing.T) {
	t.Parallel()
	c := RedisSentinel(t)
	master, watcher := c.Leader(), c.Nodes[3]
	for _, s := range c.Nodes[4:] { // without them the watcher replaces nobody
		s.Pause()
	}
	master.Pause()
	for deadline := time.Now().Add(readyWithin); ; time.Sleep(5 * time.Millisecond) {
		if flags, err := watcher.redisMasterFlags(); err == nil && strings.Contains(flags, "s_down") {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("flags of a master that hangs: %q, %v, want s_down", flags, err)
		}
	}
	master.Resume()
	c.AwaitReplicas(2)
	if flags, err := watcher.redisMasterFlags(); err != nil || flags != "master" {
		t.Errorf("flags of the master after AwaitReplicas: %q, %v, want master alone", flags, err)
	}
}
