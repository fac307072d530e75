package memcached

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/members"
	"github.com/coordgo/coord/internal/testserver"
)

// Over a client of the backend's own, as a URL opens it.
func TestConformance(t *testing.T) {
	t.Parallel() // it mostly waits
	conform(t, func(tb conformance.TB, addr string) driver.Backend { return openIn(tb, patientURL(addr)) }, twoMembers(t))
}

// patientURL gives each command, also those of Open, the time that a command of newClient has: all cases run at once.
func patientURL(addr string) string {
	return fmt.Sprintf("memcached://%s?timeout=%v", addr, maxTimeout)
}

func openIn(tb conformance.TB, text string) driver.Backend {
	u, err := url.Parse(text)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	b, err := Open(context.Background(), u)
	if err != nil {
		tb.Fatalf("Open: %v", err)
	}
	return b
}

// twoMembers are two servers, each behind a proxy that can cut it off.
func twoMembers(t *testing.T) *conformance.Members {
	const timeout = 2 * time.Second // the usual one is short for some hundred renewals at once beside other tests
	type store struct {
		servers []*testserver.Server
		proxies []*conformance.Proxy
		addrs   []string
		place   servers
	}
	start := sync.OnceValue(func() (s store) {
		for range 2 {
			srv := testserver.Memcached(t, testserver.WithFlags("-M"))
			p := must[*conformance.Proxy](t)(conformance.NewProxy(srv.Addr))
			t.Cleanup(func() {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			})
			s.servers, s.proxies, s.addrs = append(s.servers, srv), append(s.proxies, p), append(s.addrs, p.Addr())
		}
		s.place = newServers(s.addrs)
		return s
	})
	at := func(key string) int {
		s := start()
		return slices.Index(s.addrs, s.place.pick(nameOf(key).enc).addr)
	}
	return members.Of(func() []*testserver.Server { return start().servers }, func() {}, conformance.Members{
		Open: func(tb conformance.TB) driver.Backend {
			return openIn(tb, fmt.Sprintf("memcached://%s?timeout=%v", strings.Join(start().addrs, ","), timeout))
		},
		Count: 2, Bound: timeout, LockAt: at, LimitAt: at,
		CutOff: func(_ conformance.TB, i int) func() {
			p := start().proxies[i]
			p.Cut()
			return p.Heal
		},
		Empty: func(_ conformance.TB, i int) func() {
			start().servers[i].Restart()
			return nil
		},
	})
}

// Over a client that the application owns.
func TestConformanceOverAClient(t *testing.T) {
	t.Parallel() // it mostly waits
	conform(t, func(tb conformance.TB, addr string) driver.Backend {
		client := newClient(addr)
		tb.Cleanup(func() {
			if err := client.Close(); err != nil {
				tb.Errorf("close the application's client: %v", err)
			}
		})
		b, err := New(client)
		if err != nil {
			tb.Fatalf("New: %v", err)
		}
		return b
	}, nil)
}

func conform(t *testing.T, open func(conformance.TB, string) driver.Backend, several *conformance.Members) {
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	faults := conformance.TCPFaults(srv.Addr, open)
	faults.Skew = func(tb conformance.TB, ahead time.Duration) driver.Backend {
		b := open(tb, srv.Addr)
		b.(*backend).clock = func() time.Time { return time.Now().Add(ahead) }
		return b
	}
	if srv.Owned {
		faults.Kill = func(conformance.TB) { srv.Kill() }
		faults.Restart = func(conformance.TB) { srv.Restart() }
		faults.Pause = func(conformance.TB) { srv.Pause() }
		faults.Resume = func(conformance.TB) { srv.Resume() }
		faults.Wipe = func(tb conformance.TB) {
			if got := srv.Text("flush_all"); got[0] != "OK" {
				tb.Fatalf("flush_all: %q", got)
			}
		}
		if several != nil { // over an application's client, a full server loses locks: docs/operations/memcached.md
			faults.Refuse, faults.Accept = fullServer(srv)
		}
	}
	conformance.Run(t, conformance.Harness{
		Open:      func(tb conformance.TB) driver.Backend { return open(tb, srv.Addr) },
		Claims:    Claims,
		Faults:    faults,
		WorkerURL: patientURL(srv.Addr),
		Members:   several,
		Deviations: []conformance.Deviation{{
			Case:   "LOCK-346",
			Reason: "a full server refuses to write the record of those who share a key: their holds end with their leases",
		}},
	})
}

// fullServer gives hooks by which a server with -M has no room for an item of any size, and has room again.
func fullServer(srv *testserver.Server) (refuse, accept func(conformance.TB)) {
	const least, most, batch = 16, 2048, 256 // bytes of a value, and how many are sent at once
	var fillers []string
	refuse = func(tb conformance.TB) {
		pipeline(tb, srv.Addr, []string{"cache_memlimit 8"}) // megabytes: beyond it each size has what it has
		for size := least; size <= most; size += 1 + size/16 {
			value := fmt.Sprintf(" 0 0 %d\r\n%s", size, strings.Repeat("x", size))
			for room := true; room; {
				var adds []string
				for range batch {
					fillers = append(fillers, fmt.Sprintf("filler-%08d", len(fillers)))
					adds = append(adds, "add "+fillers[len(fillers)-1]+value)
				}
				replies := pipeline(tb, srv.Addr, adds)
				room = replies[batch-1] == "STORED"
			}
		}
	}
	accept = func(tb conformance.TB) {
		deletes := []string{"cache_memlimit 64"}
		for _, key := range fillers {
			deletes = append(deletes, "delete "+key)
		}
		for batch := range slices.Chunk(deletes, batch) {
			pipeline(tb, srv.Addr, batch)
		}
		fillers = nil
	}
	return refuse, accept
}

// pipeline sends commands at once, and gives the first line of each reply.
func pipeline(tb conformance.TB, addr string, commands []string) (replies []string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, strings.Join(commands, "\r\n")+"\r\n") }() // a failure is seen by the reader
	for r := bufio.NewReader(conn); len(replies) < len(commands); {
		line, err := r.ReadString('\n')
		if err != nil {
			tb.Fatalf("memcached: %v", err)
		}
		replies = append(replies, strings.TrimSpace(line))
	}
	return replies
}
