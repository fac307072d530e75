package etcd

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// One member of three hangs. Whatever the clients hold, or wait for, stays theirs, and who waits is granted when it is free,
// though the application's client does not look after its connections.
func TestOneMemberHangs(t *testing.T) {
	const clients, each, ttl = 6, 20, 6 * time.Second
	cluster := testserver.EtcdCluster(t)
	var all []*coord.Client
	var locks []*coord.Lock
	type wait struct {
		key  string
		done chan error
	}
	var waits []wait
	opened := make([]*backend, clients)
	for i := range clients {
		opened[i] = connect(t, cluster.Addrs()...)
		c := must[*coord.Client](t)(coord.New(opened[i]))
		defer c.Close()
		all = append(all, c)
		for j := range each {
			locks = append(locks, must[*coord.Lock](t)(c.Lock(t.Context(), fmt.Sprint("k", i, "-", j), coord.TTL(ttl))))
		}
	}
	for i, c := range all { // for the first lock of the next client
		w := wait{fmt.Sprint("k", (i+1)%clients, "-", 0), make(chan error, 1)}
		waits = append(waits, w)
		go func() {
			l, err := c.Lock(t.Context(), w.key, coord.TTL(ttl))
			if err == nil {
				err = l.Unlock(t.Context())
			}
			w.done <- err
		}()
		until(t, hung, "the waiter to be in line", func() bool {
			return len(entriesOf(t, opened[0].client, opened[0].names.line(w.key)).Kvs) == 2
		})
	}
	member := cluster.Followers(cluster.Leader())[0]
	member.Pause()
	defer member.Resume()
	for began := time.Now(); time.Since(began) < 2*ttl; time.Sleep(ttl / 20) {
		for _, l := range locks {
			if err := l.Err(); err != nil {
				t.Fatalf("after %v, %s: %v", time.Since(began), l.Key(), err)
			}
		}
		for _, w := range waits {
			select {
			case err := <-w.done:
				t.Fatalf("after %v, the waiter for %s: %v", time.Since(began), w.key, err)
			default:
			}
		}
	}
	for _, l := range locks {
		if err := l.Unlock(t.Context()); err != nil {
			t.Errorf("Unlock: %v", err)
		}
	}
	for _, w := range waits {
		select {
		case err := <-w.done:
			if err != nil {
				t.Errorf("the waiter for %s: %v", w.key, err)
			}
		case <-time.After(hung):
			t.Fatalf("the waiter for %s was not granted", w.key)
		}
	}
}
