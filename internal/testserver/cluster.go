package testserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Cluster is several servers of one store that act as one. Every node keeps its
// data over Restart. Its methods are for one goroutine at a time.
type Cluster struct {
	// Store names the product: "etcd".
	Store string
	// Nodes can be killed, paused and restarted one by one.
	Nodes []*Server

	t       testing.TB
	network *network // nil: all on the loopback address
}

// WithNetwork gives each node of a cluster a network namespace and an address of
// its own, so that [Cluster.Cut] can part them. It needs Linux, root, ip and
// iptables; without them the test is skipped, or fails if COORD_TEST_REQUIRE names
// "network".
func WithNetwork() Option { return func(c *config) { c.network = true } }

// HasNetwork reports whether a cluster can be started [WithNetwork], or has to be, since COORD_TEST_REQUIRE
// names "network".
func HasNetwork() bool { return lacksNetwork() == "" || requiresNetwork() }

// WithNetworkIfAny is [WithNetwork] where [HasNetwork] is true.
func WithNetworkIfAny() Option { return func(c *config) { c.network = HasNetwork() } }

func requiresNetwork() bool {
	return slices.Contains(strings.Split(os.Getenv("COORD_TEST_REQUIRE"), ","), "network")
}

// startCluster starts one server of each kind, which know each other by
// Server.cluster: all are started before any has to be ready.
func startCluster(t testing.TB, kinds []kind, opts []Option) *Cluster {
	t.Helper()
	c := &Cluster{Store: kinds[0].store, t: t}
	dir := ""
	for i, k := range kinds {
		if find(k.binaries) == "" {
			missing(t, k)
		}
		if dir == "" {
			dir = dataDir(t)
		}
		s := &Server{Store: k.store, Owned: true, t: t, kind: k, cluster: c, index: i}
		for _, o := range opts {
			o(&s.config)
		}
		s.config.durable = true
		if s.dir = filepath.Join(dir, fmt.Sprint("node", i)); os.Mkdir(s.dir, 0o700) != nil {
			t.Fatalf("testserver: no directory %s", s.dir)
		}
		c.Nodes = append(c.Nodes, s)
	}
	if c.Nodes[0].config.network {
		c.join(newNetwork(t, len(kinds)))
	}
	if c.Nodes[0].config.tls {
		keys := newTLS(t, dir)
		for _, s := range c.Nodes {
			s.TLS = keys
		}
	}
	t.Cleanup(c.end)
	c.launch()
	where := ""
	if c.network != nil {
		where = ", each in a network namespace of its own"
	}
	t.Logf("testserver: %d child processes, %s%s", len(c.Nodes), find(c.Nodes[0].kind.binaries), where)
	return c
}

// join puts each node into a namespace of its own.
func (c *Cluster) join(n *network) {
	c.network = n
	for i, s := range c.Nodes {
		s.netns, s.host = n.namespaces[i], n.addresses[i]
	}
}

// launch starts all nodes on free ports; should one be taken meanwhile, again on
// others.
func (c *Cluster) launch() {
	c.t.Helper()
	var err error
	for range 3 {
		if err = c.assign(); err != nil {
			break
		}
		if err = c.run(); err == nil {
			return
		}
		c.stop()
		for _, s := range c.Nodes {
			entries, _ := os.ReadDir(s.dir)
			for _, e := range entries {
				if path := filepath.Join(s.dir, e.Name()); path != s.logFile() {
					err = errors.Join(err, os.RemoveAll(path))
				}
			}
		}
	}
	for _, s := range c.Nodes {
		c.t.Logf("log of node %d:\n%s", s.index, s.log())
	}
	c.t.Fatalf("testserver: start a cluster of %s: %v", c.Store, err)
}

// assign gives every node two addresses.
func (c *Cluster) assign() error {
	for _, s := range c.Nodes {
		port, err1 := freePort()
		peer, err2 := freePort()
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		s.Addr, s.peer = net.JoinHostPort(s.hostAddr(), port), net.JoinHostPort(s.hostAddr(), peer)
	}
	return nil
}

// hostAddr is the address that a server listens on.
func (s *Server) hostAddr() string {
	if s.host != "" {
		return s.host
	}
	return "127.0.0.1"
}

// run starts every node and waits until each is ready.
func (c *Cluster) run() error {
	errs := make([]error, len(c.Nodes))
	var wg sync.WaitGroup
	for i, s := range c.Nodes {
		wg.Go(func() {
			_, port, err := net.SplitHostPort(s.Addr)
			if err == nil {
				err = s.run(find(s.kind.binaries), port)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// stop ends every node that runs.
func (c *Cluster) stop() {
	for _, s := range c.Nodes {
		if s.process != nil {
			s.process.kill()
		}
	}
}

// end is the cleanup.
func (c *Cluster) end() {
	c.stop()
	if c.t.Failed() {
		for _, s := range c.Nodes {
			c.t.Logf("log of node %d of %s:\n%s", s.index, c.Store, s.log())
		}
	}
}

// Addrs are the addresses for clients, in the order of Nodes.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, s := range c.Nodes {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// Leader waits until some node says that it leads, and gives it. Ended and paused
// nodes are not asked.
func (c *Cluster) Leader() *Server {
	c.t.Helper()
	deadline := time.Now().Add(readyWithin)
	for {
		for _, s := range c.Nodes {
			if !s.paused && s.running() && s.kind.leads != nil && s.kind.leads(s) {
				return s
			}
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("testserver: no leader of %s within %v", c.Store, readyWithin)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Followers are the nodes other than s.
func (c *Cluster) Followers(s *Server) []*Server {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(o *Server) bool { return o == s })
}

// running reports whether the process is there, paused or not.
func (s *Server) running() bool {
	if s.process == nil {
		return false
	}
	select {
	case <-s.process.done:
		return false
	default:
		return true
	}
}

// Start starts a node again after Kill, without waiting until it is ready: for
// when that takes other nodes, which are down too.
func (s *Server) Start() {
	s.t.Helper()
	s.owned()
	_, port, err := net.SplitHostPort(s.Addr)
	if err == nil {
		err = s.launchAt(find(s.kind.binaries), port)
	}
	if err != nil {
		s.t.Fatalf("testserver: start %s: %v", s.Store, err)
	}
}

// AwaitReady waits until a started node answers.
func (s *Server) AwaitReady() {
	s.t.Helper()
	if err := s.awaitReady(); err != nil {
		s.t.Fatalf("testserver: %s: %v\n%s", s.Store, err, s.log())
	}
}

// Cut drops everything between the given nodes and the others. Clients still reach
// both sides. It wants a cluster WithNetwork.
func (c *Cluster) Cut(side ...*Server) {
	c.t.Helper()
	c.wantNetwork()
	for _, a := range side {
		for _, b := range c.Nodes {
			if slices.Contains(side, b) {
				continue
			}
			if err := errors.Join(c.network.drop(a.index, b.index), c.network.drop(b.index, a.index)); err != nil {
				c.t.Fatalf("testserver: cut: %v", err)
			}
		}
	}
}

// Isolate drops everything that comes to s, from clients too.
func (c *Cluster) Isolate(s *Server) {
	c.t.Helper()
	c.wantNetwork()
	if err := c.network.dropAll(s.index); err != nil {
		c.t.Fatalf("testserver: isolate: %v", err)
	}
}

// Heal ends every Cut and Isolate.
func (c *Cluster) Heal() {
	c.t.Helper()
	c.wantNetwork()
	if err := c.network.heal(); err != nil {
		c.t.Fatalf("testserver: heal: %v", err)
	}
}

func (c *Cluster) wantNetwork() {
	c.t.Helper()
	if c.network == nil {
		c.t.Fatal("testserver: this cluster was not started WithNetwork")
	}
}
