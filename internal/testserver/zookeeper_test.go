package testserver

import (
	"strings"
	"testing"
)

func TestZooKeeper(t *testing.T) {
	t.Parallel() // it mostly waits
	s := ZooKeeper(t, Durable())
	serves := func() {
		t.Helper()
		if reply, err := s.zookeeperAsk("ruok"); err != nil || reply != "imok" {
			t.Fatalf("ruok: %q, %v", reply, err)
		}
		if mode := zookeeperMode(s); mode != "standalone" {
			t.Fatalf("mode %q", mode)
		}
	}
	serves()
	s.Restart()
	serves()
	s.Wipe()
	serves()
}

func TestZooKeeperConfig(t *testing.T) {
	t.Parallel() // it mostly waits
	s := ZooKeeper(t, WithConfig("maxSessionTimeout=1234"))
	reply, err := s.zookeeperAsk("conf")
	if err != nil || !strings.Contains(reply, "maxSessionTimeout=1234") {
		t.Errorf("conf: %q, %v", reply, err)
	}
}

func TestZooKeeperOverTLS(t *testing.T) {
	t.Parallel() // it mostly waits
	s := ZooKeeper(t, WithTLS())
	if mode := zookeeperMode(s); mode != "standalone" {
		t.Errorf("mode %q", mode)
	}
}

func TestNightlyZooKeeperCluster(t *testing.T) {
	t.Parallel() // it mostly waits
	c := ZooKeeperCluster(t)
	l := c.Leader()
	for _, s := range c.Followers(l) {
		if mode := zookeeperMode(s); mode != "follower" {
			t.Errorf("mode %q beside a leader", mode)
		}
	}
	l.Kill()
	if next := c.Leader(); next == l {
		t.Error("the node that was killed leads")
	}
	l.Start()
	l.AwaitReady()
}
