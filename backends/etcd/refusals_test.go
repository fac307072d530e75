package etcd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// fill uses up the server's space, so that it refuses whatever would take more.
func fill(t testing.TB, client *clientv3.Client) {
	t.Helper()
	value := strings.Repeat("x", 256<<10)
	for i := range 1000 {
		_, err := client.Put(t.Context(), fmt.Sprint("fill", i), value)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the server takes everything: the test shows nothing")
}

// A server whose space is used up refuses new locks, and nothing else: what is held and who waits lives on, though a refusal
// leaves it unknown whether a lock was made.
func TestNoSpaceLosesNothing(t *testing.T) {
	t.Parallel()
	srv := testserver.Etcd(t, testserver.WithFlags("--quota-backend-bytes", "4194304"))
	holder, b := connect(t, srv.Addr), connect(t, srv.Addr)
	c := must[*coord.Client](t)(coord.New(b))
	defer c.Close()
	const ttl = 30 * time.Second
	var locks []*coord.Lock
	for i := range 20 {
		locks = append(locks, must[*coord.Lock](t)(c.Lock(t.Context(), fmt.Sprint("k", i), coord.TTL(ttl))))
	}
	taken := request("taken", time.Minute)
	must[driver.Grant](t)(holder.TryLock(t.Context(), "taken", taken))
	waits := startWaiter(t, t.Context(), b, "taken", request("waiter", ttl), 2)
	fill(t, holder.client)
	refused, full := 0, time.Now()
	renewed := func(l *coord.Lock) bool { return l.Deadline().After(full.Add(ttl)) }
	for start := time.Now(); slices.IndexFunc(locks, func(l *coord.Lock) bool { return !renewed(l) }) >= 0; time.Sleep(ttl / 100) {
		if time.Since(start) > hung {
			t.Fatal("a hold is not renewed on a server without space")
		}
		if _, err := c.TryLock(t.Context(), fmt.Sprint("new", refused), coord.TTL(ttl)); err == nil || errors.Is(err, coord.ErrLocked) {
			t.Fatalf("TryLock on a server without space: %v", err)
		}
		refused++
		for _, l := range locks {
			if err := l.Err(); err != nil {
				t.Fatalf("after %v, %s: %v", time.Since(full), l.Key(), err)
			}
		}
	}
	stillWaiting(t, waits, "on a server without space")

	operator := must[*coord.Client](t)(coord.Open(t.Context(), "etcd://"+srv.Addr+"/"+testserver.NameOf(t)))
	defer operator.Close()
	h, err := operator.Inspect(t.Context(), "k0")
	if err != nil {
		t.Fatalf("%v; the holder was told: %v", err, locks[0].Err())
	}
	if err := operator.BreakNow(t.Context(), "k0", h.ID); err != nil {
		t.Errorf("BreakNow on a server without space: %v", err)
	}
	for _, l := range locks[1:] {
		if err := l.Unlock(t.Context()); err != nil {
			t.Errorf("Unlock on a server without space: %v", err)
		}
	}
	if err := holder.Unlock(t.Context(), "taken", taken.ID); err != nil {
		t.Error(err)
	}
	if got := soonResult(t, waits, hung, "the waiter to be granted"); got.err != nil {
		t.Error(got.err)
	}
}

// A server that takes few operations in a transaction gets few.
func TestFewOperationsInATransaction(t *testing.T) {
	t.Parallel()
	srv := testserver.Etcd(t, testserver.WithFlags("--max-txn-ops", "16"))
	b, other := connect(t, srv.Addr), connect(t, srv.Addr)
	var holds []driver.Hold
	for i := range 90 {
		h := driver.Hold{Key: fmt.Sprint("k", i), Request: request("a", time.Minute)}
		must[driver.Grant](t)(b.TryLock(t.Context(), h.Key, h.Request))
		holds = append(holds, h)
	}
	renewed := func(when string) {
		t.Helper()
		for i, r := range b.RenewAll(t.Context(), holds) {
			if r.Err != nil {
				t.Fatalf("%s, hold %d: %v", when, i, r.Err)
			}
		}
	}
	renewed("on their lease")
	b.mu.Lock()
	for _, l := range b.granted {
		l.tainted = true
	}
	b.mu.Unlock()
	renewed("to another lease")
	b.mu.Lock()
	for _, e := range b.entries {
		b.remove(e)
	}
	b.mu.Unlock()
	until(t, hung, "all to be removed", func() bool {
		return must[*clientv3.GetResponse](t)(other.client.Get(t.Context(), b.names.base+"lock/", clientv3.WithPrefix(), clientv3.WithCountOnly())).Count == 0
	})
}
