package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// storeNames are the stores that everything is measured on.
var storeNames = []string{"redis", "etcd", "zookeeper", "memcached", "postgres", slowPostgres, "memory"}

// store is a server that is measured on.
type store struct {
	name, addr, version string
	// count is what the server has been asked so far.
	count func() (counts, error)
}

// counts are numbers of requests. What a server does not tell is zero.
type counts struct {
	// Commands that the server ran: on Redis those within scripts too.
	Commands float64
	// Reads from the server's sockets: on Redis only. Without pipelining they are the round trips.
	Reads float64
}

func (c counts) minus(other counts) counts {
	return counts{c.Commands - other.Commands, c.Reads - other.Reads}
}

// url is how coord opens the store.
func (s *store) url() string {
	switch s.name {
	case "memory":
		return "memory://"
	case "postgres", slowPostgres:
		return s.postgresURL()
	}
	return s.name + "://" + s.addr
}

func openStore(tb testing.TB, name string) (*store, error) {
	s := &store{name: name}
	var srv *testserver.Server
	s.count = func() (counts, error) { return counts{}, nil }
	switch name {
	case "redis":
		srv = testserver.Redis(tb)
		s.count = s.redisCounts
	case "etcd":
		srv = testserver.Etcd(tb)
		s.count = s.etcdCounts
	case "zookeeper":
		srv = testserver.ZooKeeper(tb)
		s.count = s.zookeeperCounts
	case "memcached":
		srv = testserver.Memcached(tb, testserver.WithFlags("-M"))
		s.count = func() (counts, error) { return memcachedCounts(srv), nil }
	case "postgres":
		srv = testserver.Postgres(tb)
	case slowPostgres:
		srv = testserver.Postgres(tb, slowCommits)
	case "memory":
	default:
		return nil, fmt.Errorf("no store %q: want some of %v", name, storeNames)
	}
	if srv != nil {
		s.addr = srv.Addr
	}
	if name == "postgres" || name == slowPostgres {
		s.addr = testserver.PostgresURL(testserver.PostgresUser, srv.Addr)
		if err := makePeerTables(tb.Context(), s); err != nil {
			return nil, err
		}
	}
	c, err := coord.Open(tb.Context(), s.url())
	if err != nil {
		return nil, err
	}
	s.version = c.Info().Server
	return s, c.Close()
}

func (s *store) redisCounts() (c counts, err error) {
	reply, err := ask(s.addr, "INFO all\r\n", "# Keyspace")
	if err != nil {
		return c, err
	}
	for line := range strings.Lines(reply) {
		line = strings.TrimSpace(line)
		if name, rest, ok := strings.Cut(line, ":calls="); ok && strings.HasPrefix(name, "cmdstat_") {
			if name == "cmdstat_info" {
				continue // our own
			}
			digits, _, _ := strings.Cut(rest, ",")
			c.Commands += number(digits)
		}
		if rest, ok := strings.CutPrefix(line, "total_reads_processed:"); ok {
			c.Reads = number(rest)
		}
	}
	return c, nil
}

// etcdCounts are the messages that etcd has received, those of streams included.
func (s *store) etcdCounts() (c counts, err error) {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get("http://" + s.addr + "/metrics")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), "} "); ok && strings.HasPrefix(name, "grpc_server_msg_received_total{") {
			c.Commands += number(value)
		}
	}
	return c, lines.Err()
}

// zookeeperCounts are the packets that ZooKeeper has received, pings included.
func (s *store) zookeeperCounts() (c counts, err error) {
	reply, err := ask(s.addr, "mntr", "")
	if err != nil {
		return c, err
	}
	for line := range strings.Lines(reply) {
		if rest, ok := strings.CutPrefix(line, "zk_packets_received\t"); ok {
			c.Commands = number(strings.TrimSpace(rest))
		}
	}
	return c, nil
}

func memcachedCounts(s *testserver.Server) (c counts) {
	stats := s.Stats()
	for _, name := range []string{
		"cmd_get", "cmd_set", "cmd_touch", "cmd_flush", "delete_hits", "delete_misses",
		"incr_hits", "incr_misses", "decr_hits", "decr_misses", "cmd_meta",
	} {
		c.Commands += float64(stats[name])
	}
	return c
}

// ask sends a question, and reads up to a line that begins with last; all there is if last is "".
func ask(addr, question, last string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, question); err != nil {
		return "", err
	}
	var b strings.Builder
	lines := bufio.NewReader(conn)
	for {
		line, err := lines.ReadString('\n')
		b.WriteString(line)
		if last == "" && errors.Is(err, io.EOF) || last != "" && strings.HasPrefix(line, last) {
			return b.String(), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// number is 0 of a text that is none.
func number(s string) float64 {
	v, _ := strconv.ParseFloat(s, 64)
	return v
}
