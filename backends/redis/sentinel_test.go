package redis

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// openedAs is the name of the connections of openSentinels.
const openedAs = "openedByTest"

// openSentinels opens the store n times, as applications do. Its clients close with the test.
func openSentinels(t *testing.T, c *testserver.Cluster, n int) (clients []*coord.Client) {
	t.Helper()
	for range n {
		b, err := openURL(t, sentinelURL(c)+"?client_name="+openedAs)
		if err != nil {
			t.Fatal(err)
		}
		client, err := coord.New(b)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		})
		clients = append(clients, client)
	}
	return clients
}

// direct talks to one server, whatever its role.
func direct(t *testing.T, s *testserver.Server) *redis.Client {
	t.Helper()
	client := redis.NewClient(clientOptions(s.Addr))
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// awaitElected waits until all the given sentinels name one master, and it is not old.
func awaitElected(t *testing.T, old *testserver.Server, sentinels ...*testserver.Server) {
	t.Helper()
	var clients []*redis.Client
	for _, s := range sentinels {
		clients = append(clients, direct(t, s))
	}
	await(t, "another master", func() bool {
		named := map[string]bool{}
		for _, client := range clients {
			addr := must[[]string](t)(client.Do(t.Context(), "sentinel", "get-master-addr-by-name", testserver.RedisSentinelMaster).StringSlice())
			named[net.JoinHostPort(addr[0], addr[1])] = true
		}
		return len(named) == 1 && !named[old.Addr]
	})
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(hung); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%s: not after %v", what, hung)
			return
		}
	}
}

// openedOn counts the connections of openSentinels that a server has.
func openedOn(t *testing.T, server *redis.Client) int {
	t.Helper()
	return strings.Count(must[string](t)(server.ClientList(t.Context()).Result()), " name="+openedAs+" ")
}

// TestNightlySentinelsOldMasterWithOne: the master and one sentinel are cut off from the other servers, not
// from the clients. All clients follow the new master: those that were there before, and those
// that come later.
func TestNightlySentinelsOldMasterWithOne(t *testing.T) {
	t.Parallel()
	c := testserver.RedisSentinel(t, silently, testserver.WithNetwork())
	old := c.Leader()
	onOld := direct(t, old)
	clients := openSentinels(t, c, 6)
	c.Cut(old, c.Nodes[3])
	awaitElected(t, old, c.Nodes[4], c.Nodes[5])
	await(t, "no connection to the old master", func() bool { return openedOn(t, onOld) == 0 })
	clients = append(clients, openSentinels(t, c, 6)...)
	held := 0
	for _, client := range clients {
		_, err := client.TryLock(t.Context(), "k", coord.TTL(time.Minute))
		switch {
		case err == nil:
			held++
		case !errors.Is(err, coord.ErrLocked):
			t.Error(err)
		}
	}
	if held != 1 {
		t.Errorf("%d clients hold the lock", held)
	}
	if n := must[int64](t)(onOld.Exists(t.Context(), lockKey("k")).Result()); n != 0 {
		t.Error("the old master granted the lock")
	}
	if n := openedOn(t, onOld); n != 0 {
		t.Errorf("%d connections to the old master", n)
	}
}

// TestNightlySentinelsSilent: a sentinel that accepts connections and does not answer costs no hold, whatever else happens.
func TestNightlySentinelsSilent(t *testing.T) {
	t.Parallel()
	t.Run("a connection is lost", func(t *testing.T) {
		t.Parallel()
		c := testserver.RedisSentinel(t, silently)
		// Twelve, because a client that asked one sentinel only would meet the silent one by chance.
		clients := openSentinels(t, c, 12)
		locks := lockEach(t, clients, 30*time.Second)
		c.Nodes[3].Pause()
		killConnections(t, c.Leader())
		renewedAfter(t, locks, time.Now())
		openSentinels(t, c, 1)
	})
	t.Run("two of them", func(t *testing.T) {
		t.Parallel()
		c := testserver.RedisSentinel(t, silently)
		clients := openSentinels(t, c, 2)
		locks := lockEach(t, clients, 30*time.Second)
		master := c.Leader()
		c.Nodes[3].Pause()
		c.Nodes[4].Pause()
		killConnections(t, master)
		renewedAfter(t, locks, time.Now()) // the master is known
		if _, err := openURL(t, sentinelURL(c)); !errors.Is(err, driver.ErrNotSent) || !strings.Contains(err.Error(), "1 of 3 answer, "+master.Addr+" with epoch 0") {
			t.Errorf("opened with one sentinel of three: %v", err)
		}
	})
	t.Run("the master stops", func(t *testing.T) {
		t.Parallel()
		c := testserver.RedisSentinel(t, silently)
		clients := openSentinels(t, c, 12)
		locks := lockEach(t, clients, time.Minute)
		old := c.Leader()
		if n := must[int64](t)(direct(t, old).Wait(t.Context(), 2, hung).Result()); n != 2 {
			t.Fatalf("%d replicas have the locks", n)
		}
		c.Nodes[3].Pause()
		old.Pause()
		awaitElected(t, old, c.Nodes[4], c.Nodes[5])
		elected := time.Now()
		for _, client := range clients {
			await(t, "a client that reaches the new master", func() bool { return client.Ping(t.Context()) == nil })
		}
		renewedAfter(t, locks, elected)
	})
}

// lockEach takes two locks by each client.
func lockEach(t *testing.T, clients []*coord.Client, ttl time.Duration) (locks []*coord.Lock) {
	t.Helper()
	for i := range 2 * len(clients) {
		l, err := clients[i/2].TryLock(t.Context(), fmt.Sprint("k", i), coord.TTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		locks = append(locks, l)
	}
	return locks
}

// killConnections ends the connections of openSentinels to a server.
func killConnections(t *testing.T, s *testserver.Server) {
	t.Helper()
	server := direct(t, s)
	n := 0
	for line := range strings.Lines(must[string](t)(server.ClientList(t.Context()).Result())) {
		if id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " "); strings.Contains(line, " name="+openedAs+" ") {
			must[int64](t)(server.ClientKillByFilter(t.Context(), "id", id).Result())
			n++
		}
	}
	if n == 0 {
		t.Fatal("no connection to end")
	}
}

// renewedAfter waits until each lock was renewed by an answer to a request made after a moment, and fails if one was lost.
func renewedAfter(t *testing.T, locks []*coord.Lock, after time.Time) {
	t.Helper()
	lost := 0
	for _, l := range locks {
		for l.Err() == nil && l.Deadline().Before(after.Add(l.TTL()-l.TTL()/100)) {
			time.Sleep(5 * time.Millisecond)
		}
		if l.Err() != nil {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d holds were lost", lost, len(locks))
	}
}
