package testserver

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// RedisSentinelMaster is the name by which the sentinels of [RedisSentinel] know the
// master.
const RedisSentinelMaster = "mymaster"

// RedisSentinel gives one Redis server, two replicas of it and three sentinels: Nodes 0,
// 1 and 2, and 3 to 5. A master that is gone for a second is replaced. Leader is the
// present one.
func RedisSentinel(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	data := kind{
		store: "redis", binaries: []string{"redis-server", "valkey-server"},
		args: redisNodeArgs, ready: redisReady, leads: redisSentinelLeads,
	}
	sentinel := data
	sentinel.args, sentinel.leads = redisSentinelArgs, nil
	c := startCluster(t, []kind{data, data, data, sentinel, sentinel, sentinel}, opts)
	if err := c.formSentinels(); err != nil {
		t.Fatalf("testserver: form a Redis with sentinels: %v", err)
	}
	return c
}

// Sentinels are the addresses of the sentinels.
func (c *Cluster) Sentinels() []string { return c.Addrs()[3:] }

func redisSentinelArgs(s *Server, port string) []string {
	config := ""
	if p := s.config.password; p != "" {
		config = "requirepass " + p + "\nsentinel sentinel-pass " + p + "\n"
	}
	args := []string{s.redisConfig(config), "--sentinel", "--bind", s.hostAddr(), "--dir", s.dir, "--protected-mode", "no"}
	if s.config.tls {
		return append(args, "--port", "0", "--tls-port", port, "--tls-replication", "yes",
			"--tls-ca-cert-file", s.TLS.CAFile, "--tls-cert-file", s.TLS.CertFile, "--tls-key-file", s.TLS.KeyFile)
	}
	return append(args, "--port", port)
}

// formSentinels makes nodes 1 and 2 replicas of node 0, waits until they have caught
// up, and only then lets the sentinels watch, which look for replicas every ten seconds.
func (c *Cluster) formSentinels() error {
	host, port, err := net.SplitHostPort(c.Nodes[0].Addr)
	if err != nil {
		return err
	}
	for _, s := range c.Nodes[1:3] {
		if _, err := s.redisAll([]string{"REPLICAOF", host, port}, []string{"CONFIG", "REWRITE"}); err != nil {
			return err
		}
	}
	if err := c.await("replicate", func(s *Server) (bool, error) {
		reply, err := s.redisDo("INFO", "replication")
		return s.index > 0 || strings.Count(reply, "state=online") == 2, err
	}); err != nil {
		return err
	}
	for _, s := range c.Nodes[3:] {
		monitor := []string{"SENTINEL", "MONITOR", RedisSentinelMaster, host, port, "2"}
		set := []string{
			"SENTINEL", "SET", RedisSentinelMaster,
			"down-after-milliseconds", "1000", "failover-timeout", "2000", "parallel-syncs", "2",
		}
		if p := s.config.password; p != "" {
			set = append(set, "auth-pass", p)
		}
		// So that sentinels find each other, and notice, in less than their two and ten
		// seconds. Not ping-period: five of those is how old a replica's last report may be
		// for it to be chosen, and during a failover it reports once a second.
		quick := []string{"SENTINEL", "DEBUG", "publish-period", "100", "info-period", "200", "ask-period", "100"}
		if _, err := s.redisAll(monitor, set, quick); err != nil {
			return err
		}
	}
	return c.await("watch", func(s *Server) (bool, error) {
		if s.index < 3 {
			return true, nil
		}
		return s.redisInfo("INFO", "sentinel", "master0:name="+RedisSentinelMaster+",status=ok,address="+c.Nodes[0].Addr+",slaves=2,sentinels=3")
	})
}

// AwaitReplicas waits until whatever node is the master then has so many replicas that
// have caught up, and no sentinel is about to replace it.
func (c *Cluster) AwaitReplicas(n int) {
	c.t.Helper()
	for deadline := time.Now().Add(readyWithin); ; {
		master := c.Leader()
		reply, err := master.redisDo("INFO", "replication")
		online := strings.Count(reply, "state=online")
		flags := c.sentinelFlags()
		if err == nil && online == n && flags == "" {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("testserver: the master %s has %d replicas after %v, want %d: %v; sentinels that are not calm: %q", master.Addr, online, readyWithin, n, err, flags)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// sentinelFlags says what the sentinels that run think of the master, other than that it
// works: s_down and o_down after it hung, failover_in_progress while they replace it.
func (c *Cluster) sentinelFlags() string {
	var flags []string
	for _, sentinel := range c.Nodes[3:] {
		if !sentinel.running() || sentinel.paused {
			continue
		}
		if f, err := sentinel.redisMasterFlags(); err != nil {
			flags = append(flags, err.Error())
		} else if f != "master" {
			flags = append(flags, f)
		}
	}
	return strings.Join(flags, "; ")
}

// redisMasterFlags is what a sentinel thinks of the master.
func (s *Server) redisMasterFlags() (string, error) {
	reply, err := s.redisDo("SENTINEL", "MASTER", RedisSentinelMaster)
	fields := strings.Split(reply, "\n")
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "flags" {
			return fields[i+1], err
		}
	}
	return "", errors.Join(err, errors.New("no flags of the master"))
}

// redisSentinelLeads: the sentinels that run agree that s is the master, and so does s.
func redisSentinelLeads(s *Server) bool {
	asked := 0
	for _, sentinel := range s.cluster.Nodes[3:] {
		if !sentinel.running() || sentinel.paused {
			continue
		}
		addr, err := sentinel.redisDo("SENTINEL", "GET-MASTER-ADDR-BY-NAME", RedisSentinelMaster)
		host, port, _ := strings.Cut(addr, "\n")
		if err != nil || net.JoinHostPort(host, port) != s.Addr {
			return false
		}
		asked++
	}
	master, err := s.redisInfo("INFO", "replication", "role:master")
	return asked > 0 && err == nil && master
}
