package zookeeper

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// One server of three hangs. What is held by its clients, and by the others', lives on: a client leaves the
// silent server early enough to renew by another.
func TestHoldsOutliveAServerThatHangs(t *testing.T) {
	const session, clients, holds = 6 * time.Second, 4, 4
	c := testserver.ZooKeeperCluster(t)
	victim := c.Followers(c.Leader())[0]
	var backends []*backend
	var locks []*coord.Lock
	for i := range clients {
		b := connect(t, urlWithHosts(c.Addrs(), session))
		for i < clients/2 && nodeOf(t, c, b) != victim { // half of them are at the one that hangs
			b.wire.cut()
			eventually(t, "a connection to the next server", func() bool { return b.Ping(t.Context()) == nil })
		}
		holder := must[*coord.Client](t)(coord.New(b))
		t.Cleanup(func() { holder.Close() })
		for j := range holds {
			locks = append(locks, must[*coord.Lock](t)(holder.Lock(t.Context(), fmt.Sprint("k", i, j))))
		}
		backends = append(backends, b)
	}
	victim.Pause()
	paused := time.Now()
	for i, l := range locks {
		eventually(t, "a renewal while a server hangs", func() bool {
			if err := l.Err(); err != nil {
				t.Errorf("hold %d, %v after a server hung: %v", i, time.Since(paused), err)
				return true
			}
			return l.Deadline().After(paused.Add(session))
		})
	}
	for i, b := range backends {
		if b.conn.Server() == victim.Addr {
			t.Errorf("client %d is still at the server that hangs", i)
		}
	}
	victim.Resume()
}

// Clients do not all go to the server that is named first.
func TestClientsSpreadOverServers(t *testing.T) {
	first := make(map[string]bool)
	hosts := []string{"a:1", "b:1", "c:1"}
	for range 100 { // one host is never first with a probability of 10^-17
		w := newWire(hosts, nil, time.Second, time.Second)
		host, _ := w.Next()
		first[host] = true
		w.quit()
	}
	if len(first) != len(hosts) {
		t.Errorf("first are %v only", first)
	}
}
