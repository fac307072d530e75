package memcached

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// A server that does not answer costs the locks on it, and none on another server: those are renewed, and
// given back by Close.
func TestSilentServerCostsItsOwnLocks(t *testing.T) {
	t.Parallel()
	up, silent, list := twoServers(t)
	b := must[*backend](t)(openURL(t, "memcached://"+list))
	client := must[*coord.Client](t)(coord.New(b))
	defer client.Close()
	const (
		each = 200
		ttl  = 6 * time.Second // three renewals, each of a second at most where the server does not answer
	)
	next := 0
	take := func(addr string) (locks []*coord.Lock) {
		for len(locks) < each {
			key := fmt.Sprint("k", next)
			next++
			if b.Partition(key) == addr {
				locks = append(locks, must[*coord.Lock](t)(client.TryLock(t.Context(), key, coord.TTL(ttl))))
			}
		}
		return locks
	}
	onSilent, onUp := take(silent.Addr), take(up.Addr)
	silent.Pause()
	for _, l := range onSilent {
		await(t, "a lock on the silent server is lost", l.Done())
	}
	for start, renewed := time.Now(), up.Stats()["cas_hits"]; up.Stats()["cas_hits"] < renewed+each; time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > hung {
			t.Fatal("nothing is renewed on the other server")
		}
	}
	lost := 0
	for _, l := range onUp {
		if l.Err() != nil {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d locks on the other server are lost", lost, each)
	}
	silent.Resume()
	take(silent.Addr)
	silent.Pause()
	if err := client.Close(); err != nil && !errors.Is(err, coord.ErrUnavailable) {
		t.Error(err)
	}
	if left := locksOn(t, up); left > 0 {
		t.Errorf("Close has left %d of %d locks on the other server", left, each)
	}
	silent.Resume()
}

// locksOn counts the locks that a server has.
func locksOn(t *testing.T, srv *testserver.Server) (n int) {
	t.Helper()
	for key := range metadump(t, srv) {
		if strings.HasPrefix(key, "coord%2Flock%2F") {
			n++
		}
	}
	return n
}

// await waits until done is closed.
func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(hung):
		t.Fatal("not within " + hung.String() + ": " + what)
	}
}
