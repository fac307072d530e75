package testserver

import (
	"net"
	"strconv"
	"strings"
)

// RedisSlot is the slot of a key.
func (*Cluster) RedisSlot(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % RedisSlots
}

// RedisMove is a slot on its way from one node of a Redis Cluster to another.
type RedisMove struct {
	c        *Cluster
	slot     string
	from, to *Server
	toID     string
}

// BeginRedisMove makes the slot's master send clients to another one for keys that it
// does not have: they get ASK, until the move ends.
func (c *Cluster) BeginRedisMove(slot int, to *Server) *RedisMove {
	c.t.Helper()
	m := &RedisMove{c: c, slot: strconv.Itoa(slot), from: c.RedisMaster(slot), to: to}
	m.toID = m.do(to, "CLUSTER", "MYID")
	m.do(to, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.do(m.from, "CLUSTER", "MYID"))
	m.do(m.from, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.toID)
	return m
}

// Keys moves the keys that are there, one by one, as redis-cli does with --cluster-replace: clients may have
// made a key on the new master that the old one still has.
func (m *RedisMove) Keys() {
	m.c.t.Helper()
	host, port, err := net.SplitHostPort(m.to.Addr)
	if err != nil {
		m.c.t.Fatal(err)
	}
	for {
		keys := m.do(m.from, "CLUSTER", "GETKEYSINSLOT", m.slot, "100")
		if keys == "" {
			return
		}
		for key := range strings.SplitSeq(keys, "\n") {
			m.do(m.from, "MIGRATE", host, port, key, "0", "1000", "REPLACE")
		}
	}
}

// End moves the keys that are left, and gives the slot to its new master. From then on
// clients that come to the old one get MOVED.
func (m *RedisMove) End() {
	m.c.t.Helper()
	m.Keys()
	for _, s := range append([]*Server{m.to, m.from}, m.c.Nodes...) {
		if s.redisIsMaster() {
			m.do(s, "CLUSTER", "SETSLOT", m.slot, "NODE", m.toID)
		}
	}
}

func (s *Server) redisIsMaster() bool {
	master, err := s.redisInfo("INFO", "replication", "role:master")
	return err == nil && master
}

func (m *RedisMove) do(s *Server, args ...string) string {
	m.c.t.Helper()
	reply, err := s.redisDo(args...)
	if err != nil {
		m.c.t.Fatalf("testserver: %s: %v", strings.Join(args, " "), err)
	}
	return reply
}
