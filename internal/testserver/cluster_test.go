package testserver

import (
	"bufio"
	"net"
	"testing"
	"time"
)

// Three plain Redis servers stand for a cluster: they tell what reaches them.
func trio(t *testing.T, opts ...Option) *Cluster {
	t.Helper()
	k := kind{
		store:    "redis",
		binaries: []string{"redis-server"},
		args: func(s *Server, port string) []string {
			return []string{"--bind", s.hostAddr(), "--port", port, "--dir", s.dir, "--save", "", "--protected-mode", "no"}
		},
		ready: redisReady,
		leads: func(s *Server) bool { return s.index == 1 },
	}
	return startCluster(t, []kind{k, k, k}, opts)
}

func TestCluster(t *testing.T) {
	c := trio(t)
	if len(c.Addrs()) != 3 || c.Leader() != c.Nodes[1] || len(c.Followers(c.Nodes[1])) != 2 {
		t.Fatalf("nodes %v", c.Addrs())
	}
	c.Nodes[0].Kill()
	if _, err := c.Nodes[0].redisDo("PING"); err == nil {
		t.Error("a killed node answers")
	}
	if _, err := c.Nodes[2].redisDo("PING"); err != nil {
		t.Errorf("another node: %v", err)
	}
	c.Nodes[0].Start()
	c.Nodes[0].AwaitReady()
}

// asks lets a node ask another one: MIGRATE of a key opens a connection from the one to
// the other. It gives up after so many milliseconds.
func asks(from, to *Server, within string) error {
	if _, err := from.redisDo("SET", "k", "v"); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(to.Addr)
	if err != nil {
		return err
	}
	_, err = from.redisDo("MIGRATE", host, port, "k", "0", within, "COPY", "REPLACE")
	return err
}

func TestNetwork(t *testing.T) {
	c := trio(t, WithNetwork())
	a, b, other := c.Nodes[0], c.Nodes[1], c.Nodes[2]
	reach := func(when string, from, to *Server, want bool) {
		t.Helper()
		within := "300" // for what should not come
		if want {
			within = "30000"
		}
		if err := asks(from, to, within); (err == nil) != want {
			t.Errorf("%s: node %d to node %d: %v, want reached %v", when, from.index, to.index, err, want)
		}
	}
	reach("at first", a, b, true)
	c.Cut(a)
	reach("cut", a, b, false)
	reach("cut", b, a, false)
	reach("cut", b, other, true)
	if _, err := a.redisDo("PING"); err != nil {
		t.Errorf("the tests reach a cut node: %v", err)
	}
	c.Heal()
	reach("healed", a, b, true)

	conn, err := net.Dial("tcp", a.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c.Isolate(a)
	if err := conn.SetDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := redisCall(conn, bufio.NewReader(conn), "PING"); err == nil {
		t.Error("an isolated node answers")
	}
	c.Heal()
	if _, err := a.redisDo("PING"); err != nil {
		t.Errorf("healed: %v", err)
	}
}
