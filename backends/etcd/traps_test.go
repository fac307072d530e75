package etcd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// startWaiter starts a Lock, and returns when its entry is the n-th in the queue.
func startWaiter(t testing.TB, ctx context.Context, b *backend, key string, r driver.Request, n int) <-chan result {
	t.Helper()
	done := make(chan result, 1)
	go func() {
		g, err := b.Lock(ctx, key, r, func() {})
		done <- result{g, err, time.Now()}
	}()
	until(t, hung, "a waiter to be in the queue", func() bool {
		resp, err := b.client.Get(ctx, b.names.queue(key), clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && resp.Count >= int64(n)
	})
	return done
}

type result struct {
	driver.Grant
	err error
	at  time.Time
}

// soonResult is what a call comes back with, within a bound.
func soonResult(t testing.TB, done <-chan result, within time.Duration, what string) result {
	t.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(within):
		t.Fatalf("waited %v for: %s", within, what)
		return result{}
	}
}

// stillWaiting ends the test if a call has come back.
func stillWaiting(t testing.TB, done <-chan result, when string) {
	t.Helper()
	select {
	case r := <-done:
		t.Fatalf("%s the wait ended with %+v, %v", when, r.Grant, r.err)
	default:
	}
}

// left is how much of a lease is left at the server, which rounds down.
func left(t testing.TB, b *backend, lease int64) time.Duration {
	t.Helper()
	resp := must[*clientv3.LeaseTimeToLiveResponse](t)(b.client.TimeToLive(t.Context(), clientv3.LeaseID(lease)))
	return time.Duration(resp.TTL) * time.Second
}

// runsDown waits until so much of a lease has gone that it has not been kept alive.
func runsDown(t testing.TB, b *backend, lease int64, ttl time.Duration, meanwhile func()) {
	t.Helper()
	until(t, hung, "the lease to run down", func() bool {
		meanwhile()
		return left(t, b, lease) <= ttl-3*time.Second
	})
}

// A request whose reply was lost has made an entry. Its lease runs down, though the
// client keeps other holds of the same TTL alive all the time.
func TestTrap02GhostEndsThoughOthersAreRenewed(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, m := meddled(t, srv.Addr)
	const ttl = time.Minute
	other := request("other", ttl)
	g := must[driver.Grant](t)(b.TryLock(t.Context(), "other", other))
	m.loseReply()
	ghost := request("ghost", ttl)
	if _, err := b.TryLock(t.Context(), "k", ghost); err == nil || driver.Definite(err) {
		t.Fatalf("a lost reply: %v, want an unknown outcome", err)
	}
	m.on(nil)
	entries := entriesOf(t, b.client, b.names.queue("k")).Kvs
	if len(entries) != 1 {
		t.Fatal("the request was not applied: the test shows nothing")
	}
	runsDown(t, b, entries[0].Lease, ttl, func() {
		b.age(0.5) // a keepalive is due
		again, err := b.Renew(t.Context(), "other", other)
		if err != nil || again.Token != g.Token {
			t.Fatalf("renewal of the other hold: token %d, %v, want %d", again.Token, err, g.Token)
		}
	})
	must[*clientv3.LeaseRevokeResponse](t)(b.client.Revoke(t.Context(), clientv3.LeaseID(entries[0].Lease))) // it is over
	must[driver.Grant](t)(b.Renew(t.Context(), "other", other))
	if _, err := b.TryLock(t.Context(), "k", request("next", time.Second)); err != nil {
		t.Error(err)
	}
}

// A request that the store gets only after its lease has ended makes no ghost, though the
// client still holds another lock of the same TTL.
func TestTrap02LateRequestIsRefused(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, m := meddled(t, srv.Addr)
	const ttl = time.Minute
	other := request("other", ttl)
	must[driver.Grant](t)(b.TryLock(t.Context(), "other", other))
	caught := m.lose(1)
	if _, err := b.TryLock(t.Context(), "k", request("late", ttl)); err == nil || driver.Definite(err) {
		t.Fatalf("a lost request: %v, want an unknown outcome", err)
	}
	m.on(nil)
	req := <-caught
	lease := req.Success[0].GetRequestPut().Lease
	runsDown(t, b, lease, ttl, func() {
		b.age(0.5)
		must[driver.Grant](t)(b.Renew(t.Context(), "other", other))
	})
	must[*clientv3.LeaseRevokeResponse](t)(b.client.Revoke(t.Context(), clientv3.LeaseID(lease))) // it is over
	_, err := clientv3.RetryKVClient(b.client).Txn(t.Context(), req)
	if !errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) {
		t.Errorf("the request, arriving late: %v, want its lease not found", err)
	}
	must[driver.Grant](t)(b.Renew(t.Context(), "other", other))
}

// A repeated attempt after a lost reply finds its own hold, and keeps it alive.
func TestTrap02RepeatedAttemptFindsItsHold(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, m := meddled(t, srv.Addr)
	m.loseReply()
	const ttl = time.Minute
	r := request("a", ttl)
	if _, err := b.TryLock(t.Context(), "k", r); err == nil {
		t.Fatal("no error though the reply was lost")
	}
	m.on(nil)
	g := must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	kv := entriesOf(t, b.client, b.names.queue("k")).Kvs[0]
	if g.Token != kv.CreateRevision || kv.CreateRevision == kv.ModRevision {
		t.Errorf("token %d, entry created at %d and bound anew at %d", g.Token, kv.CreateRevision, kv.ModRevision)
	}
	runsDown(t, b, kv.Lease, ttl, func() {}) // nobody renews it
	until(t, hung, "the lease to be kept alive", func() bool {
		b.age(0.5)
		if again, err := b.Renew(t.Context(), "k", r); err != nil || again.Token != g.Token {
			t.Fatalf("Renew: %+v, %v", again, err)
		}
		return left(t, b, kv.Lease) > ttl-3*time.Second
	})
	if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Error(err)
	}
}

// An Unlock that is late does not remove an entry of the same name that was made since
// (etcd#22082).
func TestTrap03DeleteIsGuardedByCreateRevision(t *testing.T) {
	t.Parallel()
	srv, a := open(t)
	b := connect(t, srv.Addr)
	r := request("a", time.Minute)
	must[driver.Grant](t)(a.TryLock(t.Context(), "k", r))
	name := a.names.entry("k", 0)
	must[*clientv3.DeleteResponse](t)(b.client.Delete(t.Context(), name))
	g := must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	if err := a.Unlock(t.Context(), "k", r.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Unlock of the entry before: %v", err)
	}
	if again, err := b.Renew(t.Context(), "k", r); err != nil || again.Token != g.Token {
		t.Errorf("the entry made since: %+v, %v", again, err)
	}
}

// The token is the revision of the entry's creation, which rises with the order of
// grants, and not that of whatever reply told of the grant.
func TestTrap04TokenIsTheCreateRevision(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	first := request("first", time.Hour)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", first))
	second := request("second", time.Hour)
	done := startWaiter(t, t.Context(), b, "k", second, 2)
	for range 5 { // the store's revision goes on meanwhile
		must[*clientv3.PutResponse](t)(b.client.Put(t.Context(), "unrelated", "x"))
	}
	if err := b.Unlock(t.Context(), "k", first.ID); err != nil {
		t.Fatal(err)
	}
	got := soonResult(t, done, hung, "the second")
	resp := entriesOf(t, b.client, b.names.queue("k"))
	if got.err != nil || got.Token != resp.Kvs[0].CreateRevision || got.Token >= resp.Header.Revision-4 {
		t.Errorf("token %d, %v: want %d; the store is at %d", got.Token, got.err, resp.Kvs[0].CreateRevision, resp.Header.Revision)
	}
}

// A waiter whose lease ends is told when it looks, and not at its turn.
func TestTrap05LeaseDiesWhileWaiting(t *testing.T) {
	t.Parallel()
	srv, holder := open(t)
	r := request("holder", time.Hour)
	must[driver.Grant](t)(holder.TryLock(t.Context(), "k", r))
	b := connect(t, srv.Addr)
	b.recheck = 100 * time.Millisecond
	done := startWaiter(t, t.Context(), b, "k", request("waiter", time.Hour), 2)
	kvs := entriesOf(t, b.client, b.names.queue("k")).Kvs
	must[*clientv3.LeaseRevokeResponse](t)(b.client.Revoke(t.Context(), clientv3.LeaseID(kvs[1].Lease)))
	if got := soonResult(t, done, hung, "the waiter to be told"); got.err == nil || driver.Definite(got.err) && !errors.Is(got.err, driver.ErrNotSent) {
		t.Errorf("%+v, %v: want an error", got.Grant, got.err)
	}
}

// A waiter whose entry is deleted is told when it looks, and is not granted.
func TestTrap05EntryDeletedWhileWaiting(t *testing.T) {
	t.Parallel()
	srv, holder := open(t)
	r := request("holder", time.Hour)
	must[driver.Grant](t)(holder.TryLock(t.Context(), "k", r))
	b, w := connect(t, srv.Addr), request("waiter", time.Hour)
	b.recheck = 100 * time.Millisecond
	done := startWaiter(t, t.Context(), b, "k", w, 2)
	entry := entriesOf(t, b.client, b.names.queue("k")).Kvs[1]
	must[*clientv3.DeleteResponse](t)(holder.client.Delete(t.Context(), string(entry.Key)))
	if got := soonResult(t, done, hung, "the waiter to be told"); got.err == nil {
		t.Error("granted without an entry")
	}
	if _, err := holder.Renew(t.Context(), "k", r); err != nil {
		t.Errorf("the holder: %v", err)
	}
}

// A keepalive that says the lease is gone ends every hold on it at once.
func TestTrap07LeaseNotFoundLosesAll(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	keys := []string{"k1", "k2", "k3"}
	reqs := make(map[string]driver.Request)
	for _, key := range keys {
		reqs[key] = request("a", time.Minute)
		must[driver.Grant](t)(b.TryLock(t.Context(), key, reqs[key]))
	}
	lease := entriesOf(t, b.client, b.names.queue("k1")).Kvs[0].Lease
	must[*clientv3.LeaseRevokeResponse](t)(b.client.Revoke(t.Context(), clientv3.LeaseID(lease)))
	// A renewal sends a keepalive only if the last is some time ago.
	b.mu.Lock()
	l := b.granted[lease]
	l.since = l.since.Add(-5 * time.Second)
	b.mu.Unlock()
	if _, err := b.Renew(t.Context(), "k1", reqs["k1"]); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Renew on a lease that is gone: %v", err)
	}
	for _, key := range keys {
		if _, err := b.Renew(t.Context(), key, reqs[key]); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if _, err := b.TryLock(t.Context(), "k1", request("b", time.Minute)); err != nil {
		t.Errorf("a new lock on a new lease: %v", err)
	}
}

// A server with etcd's default timing grants no lease under two seconds: that is what is
// reported, and what the hold lasts.
func TestTrap08ServerRaisesTTL(t *testing.T) {
	t.Parallel()
	_, b := own(t, testserver.WithFlags("--heartbeat-interval", "100", "--election-timeout", "1000"))
	if b.Info().MinTTL != 2*time.Second {
		t.Errorf("MinTTL %v: want 2s", b.Info().MinTTL)
	}
	g := must[driver.Grant](t)(b.TryLock(t.Context(), "k", request("a", time.Second)))
	if g.TTL != 2*time.Second {
		t.Errorf("granted %v: want 2s", g.TTL)
	}
	if !g.Since.Before(time.Now()) {
		t.Errorf("since %v", g.Since)
	}
}

// A lease that is revoked under its holder, as by a leader that was stuck (etcd#15247), is a loss.
func TestTrap10RevocationIsALoss(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	r := request("a", time.Hour)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	lease := entriesOf(t, b.client, b.names.queue("k")).Kvs[0].Lease
	must[*clientv3.LeaseRevokeResponse](t)(b.client.Revoke(t.Context(), clientv3.LeaseID(lease)))
	if _, err := b.Renew(t.Context(), "k", r); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Renew after the loss: %v", err)
	}
}

// The predecessor goes between the reply that names it and the watch of it.
func TestTrap13PredecessorGoesBeforeTheWatch(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	holder := connect(t, srv.Addr)
	b, m := meddled(t, srv.Addr)
	for range 20 {
		r := request("holder", time.Hour)
		must[driver.Grant](t)(holder.TryLock(t.Context(), "k", r))
		m.on(func(_ string, req any, send func() error) error {
			err := send()
			if txn, ok := req.(*pb.TxnRequest); ok && err == nil && puts(txn) {
				if err := holder.Unlock(context.Background(), "k", r.ID); err != nil {
					t.Errorf("Unlock: %v", err)
				}
			}
			return err
		})
		w := request("waiter", time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), hung)
		if _, err := b.Lock(ctx, "k", w, func() {}); err != nil {
			t.Fatalf("%v: want a grant by the look after the watch", err)
		}
		cancel()
		m.on(nil)
		if err := b.Unlock(t.Context(), "k", w.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// A lease whose grant was lost holds nothing and ends by itself.
func TestTrap15LostLeaseGrantExpires(t *testing.T) {
	t.Parallel()
	srv := testserver.Etcd(t, testserver.Durable())
	b, m := meddled(t, srv.Addr)
	var once sync.Once
	var lost atomic.Int64
	m.on(func(method string, _ any, send func() error) error {
		err := send()
		if method == "LeaseGrant" {
			once.Do(func() { err = rpctypes.ErrGRPCTimeout; lost.Store(1) })
		}
		return err
	})
	r := request("a", time.Second)
	_, err := b.TryLock(t.Context(), "k", r)
	if lost.Load() != 1 {
		t.Fatal("no grant was lost: the test shows nothing")
	}
	if err != nil && !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("TryLock without a lease: %v, want that it was not sent", err)
	}
	if err != nil {
		must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	}
	if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Error(err)
	}
	until(t, hung, "all leases to end", func() bool {
		resp, err := b.client.Leases(t.Context())
		return err == nil && len(resp.Leases) == 0
	})
}

// A limit whose state this client has forgotten costs one request more than one that it remembers.
func TestForgottenLimit(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	cfg, count := counting(clientConfig(srv.Addr))
	b := connectWith(t, cfg)
	limit := must[driver.Limit](t)(driver.Limit{Rate: 100, Per: time.Hour}.Normal())
	take := func() error {
		_, err := b.TakeOne(t.Context(), "k", limit, driver.Ask{Min: 1, N: 1})
		return err
	}
	takeAll := func() error {
		_, err := b.TakeAll(t.Context(), []driver.Demand{{Key: "k", Limit: limit, N: 1}, {Key: "l", Limit: limit, N: 1}})
		return err
	}
	forget := func() { b.limits.states.Forget(func(*cell) bool { return true }) }
	for _, step := range []struct {
		name   string
		forget bool
		do     func() error
		want   int
	}{
		{"new, with a lease", false, take, 1},
		{"remembered", false, take, 1},
		{"forgotten", true, take, 2},
		{"of two one new", false, takeAll, 1},
		{"two remembered", false, takeAll, 1},
		{"two forgotten", true, takeAll, 2},
	} {
		if step.forget {
			forget()
		}
		count.take()
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := count.take()[methodTxn]; got != step.want {
			t.Errorf("%s: %d requests, want %d", step.name, got, step.want)
		}
	}
}
