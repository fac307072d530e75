package testserver

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// RedisSlots is how many slots a cluster of Redis has.
const RedisSlots = 16384

// RedisCluster gives a Redis Cluster of three masters, which are Nodes 0 to 2 at
// first, with so many replicas each: node 3 is the first of node 0, and so on. A master
// that is gone for a second is replaced. Leader is the master of slot 0.
func RedisCluster(t testing.TB, replicas int, opts ...Option) *Cluster {
	t.Helper()
	kinds := make([]kind, 3*(1+replicas))
	for i := range kinds {
		kinds[i] = kind{
			store:    "redis",
			binaries: []string{"redis-server", "valkey-server"},
			args:     redisClusterArgs,
			ready:    redisReady,
			leads:    func(s *Server) bool { return s.redisServes(0) },
		}
	}
	c := startCluster(t, kinds, opts)
	if err := c.formRedisCluster(); err != nil {
		t.Fatalf("testserver: form a Redis Cluster: %v", err)
	}
	return c
}

func redisClusterArgs(s *Server, port string) []string {
	_, bus, err := net.SplitHostPort(s.peer)
	if err != nil {
		s.t.Fatal(err)
	}
	return append(redisNodeArgs(s, port),
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", bus,
		"--cluster-node-timeout", "700", "--cluster-replica-validity-factor", "0")
}

// redisNodeArgs are those of a server that replicates. It begins with a file, so
// that a change of roles is remembered.
func redisNodeArgs(s *Server, port string) []string {
	args := append([]string{s.redisConfig("")}, redisArgs(s, port)...)
	args = append(args, "--protected-mode", "no", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--repl-timeout", "5")
	if s.config.tls {
		args = append(args, "--tls-replication", "yes", "--tls-cluster", "yes")
	}
	if s.config.password != "" {
		args = append(args, "--masterauth", s.config.password)
	}
	return args
}

// redisConfig is the path of the server's own configuration, which it rewrites. It is
// made if it is not there.
func (s *Server) redisConfig(text string) string {
	path := filepath.Join(s.dir, "redis.conf")
	if _, err := os.Stat(path); err != nil {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			s.t.Fatalf("testserver: %v", err)
		}
	}
	return path
}

// formRedisCluster makes servers that do not know each other a cluster.
func (c *Cluster) formRedisCluster() error {
	var ids []string
	for i, s := range c.Nodes {
		id, err := s.redisDo("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		ids = append(ids, id)
		// Masters of one epoch would have to settle which is the elder.
		if _, err := s.redisDo("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i < 3 {
			first, end := RedisSlots*i/3, RedisSlots*(i+1)/3
			if _, err := s.redisDo("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(end-1)); err != nil {
				return err
			}
		}
	}
	for _, a := range c.Nodes { // each one to each, because gossip takes seconds
		for _, b := range c.Nodes[:a.index] {
			if err := a.redisMeet(b); err != nil {
				return err
			}
		}
	}
	if err := c.await("know each other", func(s *Server) (bool, error) {
		return s.redisInfo("CLUSTER", "INFO", "cluster_known_nodes:"+strconv.Itoa(len(c.Nodes)))
	}); err != nil {
		return err
	}
	for i, s := range c.Nodes[3:] {
		if err := c.await("follow", func(o *Server) (bool, error) {
			if o != s {
				return true, nil
			}
			_, err := s.redisDo("CLUSTER", "REPLICATE", ids[i%3])
			return err == nil, err
		}); err != nil {
			return err
		}
	}
	return c.AwaitRedis()
}

func (s *Server) redisMeet(o *Server) error {
	host, port, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return err
	}
	_, bus, err := net.SplitHostPort(o.peer)
	if err != nil {
		return err
	}
	_, err = s.redisDo("CLUSTER", "MEET", host, port, bus)
	return err
}

// AwaitRedis waits until a Redis Cluster is whole: all nodes that run serve all slots
// and agree on who is whose replica, and all replicas have caught up.
func (c *Cluster) AwaitRedis() error {
	replicas := len(c.Nodes) - 3
	if err := c.await("serve", func(s *Server) (bool, error) {
		nodes, err := s.redisDo("CLUSTER", "NODES")
		if err != nil || strings.Count(nodes, "slave") != replicas || strings.Contains(nodes, "fail") {
			return false, err
		}
		return s.redisInfo("CLUSTER", "INFO", "cluster_state:ok", "cluster_slots_ok:16384")
	}); err != nil {
		return err
	}
	return c.await("replicate", func(s *Server) (bool, error) {
		role, err := s.redisInfo("INFO", "replication", "role:master")
		if err != nil {
			return false, err
		}
		if !role {
			return s.redisInfo("INFO", "replication", "master_link_status:up")
		}
		online, err := s.redisDo("INFO", "replication")
		return strings.Count(online, "state=online") == replicas/3, err
	})
}

// await polls every node that runs until it has come to what.
func (c *Cluster) await(what string, has func(*Server) (bool, error)) error {
	deadline := time.Now().Add(readyWithin)
	for _, s := range c.Nodes {
		for s.running() && !s.paused {
			done, err := has(s)
			if done && err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("node %d does not %s after %v: %v", s.index, what, readyWithin, err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return nil
}

// redisInfo reports whether the reply to a command of two words has all these lines.
func (s *Server) redisInfo(command, what string, lines ...string) (bool, error) {
	reply, err := s.redisDo(command, what)
	for _, line := range lines {
		if !strings.Contains("\n"+reply, "\n"+line+"\r") {
			return false, err
		}
	}
	return true, err
}

// redisServes reports whether the node is, as it sees itself, the master of a slot.
func (s *Server) redisServes(slot int) bool {
	nodes, err := s.redisDo("CLUSTER", "NODES")
	if err != nil {
		return false
	}
	for line := range strings.Lines(nodes) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.Contains(fields[2], "myself") || !strings.Contains(fields[2], "master") {
			continue
		}
		for _, span := range fields[8:] {
			first, last, several := strings.Cut(span, "-")
			if !several {
				last = first
			}
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err1 == nil && err2 == nil && from <= slot && slot <= to {
				return true
			}
		}
	}
	return false
}

// RedisMaster waits until some node of a Redis Cluster is the master of slot, and gives
// it.
func (c *Cluster) RedisMaster(slot int) *Server {
	c.t.Helper()
	deadline := time.Now().Add(readyWithin)
	for {
		for _, s := range c.Nodes {
			if s.running() && !s.paused && s.redisServes(slot) {
				return s
			}
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("testserver: no master of slot %d within %v", slot, readyWithin)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
