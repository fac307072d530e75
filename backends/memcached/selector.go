package memcached

import (
	"net"

	"github.com/bradfitz/gomemcache/memcache"
)

// servers is a memcache.ServerSelector by rendezvous hashing: a name belongs to the server for
// which the hash of both is greatest. The order of the list does not matter, and a server that
// is added or removed moves only the names that it gains or had. A server that is down keeps
// its names: to look for a lock elsewhere would grant it twice.
type servers []server

// server is an address as it was given. It is resolved at each dial, and so may move.
type server struct {
	addr string
	hash uint64
}

var (
	_ memcache.ServerSelector = servers(nil)
	_ net.Addr                = server{}
)

func newServers(addrs []string) servers {
	s := make(servers, len(addrs))
	for i, a := range addrs {
		s[i] = server{a, fnv1a(a)}
	}
	return s
}

// Network and String implement net.Addr.
func (s server) Network() string { return "tcp" }
func (s server) String() string  { return s.addr }

// PickServer implements memcache.ServerSelector.
func (s servers) PickServer(key string) (net.Addr, error) {
	if len(s) == 0 {
		return nil, memcache.ErrNoServers
	}
	return s.pick(placeOf(key)), nil
}

// pick gives the server of a name; there is at least one.
func (s servers) pick(place string) server {
	if len(s) == 1 {
		return s[0]
	}
	h := fnv1a(place)
	best, most := server{}, uint64(0)
	for _, srv := range s {
		score := mix(h ^ mix(srv.hash))
		if best.addr == "" || score > most || score == most && srv.addr < best.addr {
			best, most = srv, score
		}
	}
	return best
}

// Each implements memcache.ServerSelector.
func (s servers) Each(fn func(net.Addr) error) error {
	for _, srv := range s {
		if err := fn(srv); err != nil {
			return err
		}
	}
	return nil
}

// fnv1a is the 64-bit hash of Fowler, Noll and Vo. It must never change: it places keys.
func fnv1a(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// mix spreads every bit over all others: the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
