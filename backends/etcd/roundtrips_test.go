package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

const (
	methodTxn       = "/etcdserverpb.KV/Txn"
	methodRange     = "/etcdserverpb.KV/Range"
	methodWatch     = "/etcdserverpb.Watch/Watch"
	methodGrant     = "/etcdserverpb.Lease/LeaseGrant"
	methodKeepAlive = "/etcdserverpb.Lease/LeaseKeepAlive"
)

// Through the whole of the core, an uncontended lock is two requests once its lease is
// there, a decision one, and a known denial none.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	cfg, count := counting(clientConfig(srv.Addr))
	backend := must[driver.Backend](t)(New(rawWith(t, cfg), WithNamespace(testserver.NameOf(t)))).(*backend)
	client := must[*coord.Client](t)(coord.New(backend))
	defer client.Close()
	ctx := coord.WithOwner(t.Context())
	limit := coord.PerHour(1)
	lock := func() error { // with a TTL which no run takes a third of
		return coord.Do(ctx, client, "k", func(context.Context) error { return nil }, coord.TTL(10*time.Minute))
	}
	if err := lock(); err != nil { // takes the lease
		t.Fatal(err)
	}
	if _, err := client.Allow(ctx, "warm up", limit); err != nil {
		t.Fatal(err)
	}
	count.take()
	for _, step := range []struct {
		name string
		txns int
		do   func() error
	}{
		{"Lock and Unlock", 2, lock},
		{"a hundred times", 200, func() (err error) {
			for range 100 {
				err = errors.Join(err, lock())
			}
			return err
		}},
		{"Allow", 1, func() error { _, err := client.Allow(ctx, "limit", limit); return err }},
		{"Allow, denied", 1, func() error { _, err := client.Allow(ctx, "limit", limit); return err }},
		{"Allow, denied again", 0, func() error { _, err := client.Allow(ctx, "limit", limit); return err }},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		calls := count.take()
		if calls[methodTxn] != step.txns || len(calls) > min(step.txns, 1) {
			t.Errorf("%s: %v, want %d transactions", step.name, calls, step.txns)
		}
	}
}

// One writer's decisions are one request each, and leave the state on a lease.
func TestOneRequestPerDecision(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	cfg, count := counting(clientConfig(srv.Addr))
	b := connectWith(t, cfg)
	limit := must[driver.Limit](t)(driver.Limit{Rate: 1_000_000, Per: time.Minute}.Normal())
	count.take()
	const n = 100
	for range n {
		one, err := b.TakeOne(t.Context(), "k", limit, driver.Ask{Min: 1, N: 1})
		if err != nil || one.N != 1 {
			t.Fatalf("%+v, %v", one, err)
		}
	}
	if calls := count.take(); calls[methodTxn] != n || calls[methodGrant] != 1 || len(calls) != 2 {
		t.Errorf("%d decisions: %v, want a request each and one lease", n, calls)
	}
	kvs := must[*clientv3.GetResponse](t)(b.client.Get(t.Context(), b.names.limit("k", limit))).Kvs
	if len(kvs) != 1 || kvs[0].Lease == 0 {
		t.Errorf("the state has no lease: %v", kvs)
	}
}

// A peek and a denial write nothing.
func TestDenialAndPeekWriteNothing(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	limit := must[driver.Limit](t)(driver.Limit{Rate: 1, Per: time.Hour}.Normal())
	ask := driver.Ask{Min: 1, N: 1}
	name := b.names.limit("k", limit)
	if _, err := b.TakeOne(t.Context(), "k", limit, driver.Ask{}); err != nil {
		t.Fatal(err)
	}
	if n := must[*clientv3.GetResponse](t)(b.client.Get(t.Context(), name)).Count; n != 0 {
		t.Error("a peek wrote a state")
	}
	must[driver.TakenOne](t)(b.TakeOne(t.Context(), "k", limit, ask))
	before := must[*clientv3.GetResponse](t)(b.client.Get(t.Context(), name)).Kvs[0]
	for range 3 {
		if one := must[driver.TakenOne](t)(b.TakeOne(t.Context(), "k", limit, ask)); one.N != 0 || one.RetryAfter <= 0 {
			t.Errorf("%+v: want a denial", one)
		}
	}
	after := must[*clientv3.GetResponse](t)(b.client.Get(t.Context(), name)).Kvs[0]
	if after.ModRevision != before.ModRevision {
		t.Error("a denial wrote")
	}
}

// Twelve clients that decide without a pause on one key: each gets its share, and none is
// defeated all the time.
func TestNightlyNoWriterStarves(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	limit := must[driver.Limit](t)(driver.Limit{Rate: 1_000_000_000, Per: time.Minute}.Normal())
	var backends [12]*backend
	for i := range backends {
		backends[i] = connect(t, srv.Addr)
	}
	const enough = 100 // of each, on average
	var decisions [len(backends)]int
	var all atomic.Int64
	var wg sync.WaitGroup
	for i, b := range backends {
		wg.Go(func() {
			for all.Add(1) <= enough*int64(len(backends)) {
				if _, err := b.TakeOne(t.Context(), "k", limit, driver.Ask{Min: 1, N: 1}); err != nil {
					t.Error(err)
					return
				}
				decisions[i]++
			}
		})
	}
	wg.Wait()
	if slices.Min(decisions[:]) < enough/10 { // on a busy machine some are asleep for longer than others
		t.Errorf("decisions of each: %v, want a tenth of %d at least", decisions, enough)
	}
}

// The lease of states is revoked by someone: the next decision takes another one.
func TestLeaseOfStatesIsGone(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	limit := must[driver.Limit](t)(driver.Limit{Rate: 10, Per: time.Hour}.Normal())
	ask := driver.Ask{Min: 1, N: 1}
	must[driver.TakenOne](t)(b.TakeOne(t.Context(), "k", limit, ask))
	name := b.names.limit("k", limit)
	lease := must[*clientv3.GetResponse](t)(b.client.Get(t.Context(), name)).Kvs[0].Lease
	must[*clientv3.LeaseRevokeResponse](t)(b.client.Revoke(t.Context(), clientv3.LeaseID(lease)))
	if one := must[driver.TakenOne](t)(b.TakeOne(t.Context(), "k", limit, ask)); one.N != 1 || one.Remaining != 9 {
		t.Errorf("%+v: want the first of 10", one)
	}
}

// Demands on one limit add up; a denial takes nothing of any.
func TestTakeAllAddsUp(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	limit := must[driver.Limit](t)(driver.Limit{Rate: 10, Per: time.Hour}.Normal())
	take := func(ns ...int) []driver.Taken {
		var demands []driver.Demand
		for i, n := range ns {
			key := "same"
			if i == 2 {
				key = "other"
			}
			demands = append(demands, driver.Demand{Key: key, Limit: limit, N: n})
		}
		return must[[]driver.Taken](t)(b.TakeAll(t.Context(), demands))
	}
	got := take(6, 5, 1)
	if got[0].Asks[0].N != 0 || got[1].Asks[0].N != 0 || got[2].Asks[0].N != 0 || got[1].Asks[0].RetryAfter <= 0 || got[2].Remaining != 10 {
		t.Errorf("6 and 5 of 10: %+v", got)
	}
	got = take(6, 4, 1)
	if got[0].Asks[0].N != 6 || got[1].Asks[0].N != 4 || got[2].Asks[0].N != 1 || got[1].Remaining != 0 {
		t.Errorf("6 and 4 of 10: %+v", got)
	}
	var many []driver.Demand
	for i := range maxOps + 1 {
		many = append(many, driver.Demand{Key: fmt.Sprint("k", i), Limit: limit, N: 1})
	}
	if _, err := b.TakeAll(t.Context(), many); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("%d limits: %v", len(many), err)
	}
	if got := must[[]driver.Taken](t)(b.TakeAll(t.Context(), many[1:])); len(got) != maxOps || got[0].Asks[0].N != 1 {
		t.Errorf("%d limits: %d answers", maxOps, len(got))
	}
}

// Three hundred holds are renewed by one keepalive and three requests, and those on a
// tainted lease are moved in the same number.
func TestRenewAllInFewRequests(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	cfg, count := counting(clientConfig(srv.Addr))
	b := connectWith(t, cfg)
	var holds []driver.Hold
	for i := range 3 * maxOps {
		h := driver.Hold{Key: fmt.Sprint("k", i), Request: request("a", 600*time.Second)}
		must[driver.Grant](t)(b.TryLock(t.Context(), h.Key, h.Request))
		holds = append(holds, h)
	}
	b.mu.Lock()
	l := b.entries[place{key: holds[0].Key, id: holds[0].ID}].lease
	b.mu.Unlock()
	age := func(l *lease) { // as if the last keepalive were a while ago
		b.mu.Lock()
		defer b.mu.Unlock()
		l.since = l.since.Add(-100 * time.Second)
	}
	renew := func(want map[string]int) {
		t.Helper()
		count.take()
		for i, r := range b.RenewAll(t.Context(), holds) {
			if r.Err != nil {
				t.Fatalf("hold %d: %v", i, r.Err)
			}
		}
		calls := count.take()
		for method, n := range want {
			if calls[method] != n {
				t.Errorf("%s: %d times, want %d; all: %v", method, calls[method], n, calls)
			}
		}
	}
	age(l)
	renew(map[string]int{methodTxn: 3, methodKeepAlive: 1, methodGrant: 0})
	b.taint(l)
	renew(map[string]int{methodTxn: 3, methodGrant: 1})
	b.mu.Lock()
	left := len(l.bound)
	b.mu.Unlock()
	if left != 0 {
		t.Errorf("%d holds are left on the tainted lease", left)
	}
	for _, h := range holds[:3] {
		if err := b.Unlock(t.Context(), h.Key, h.ID); err != nil {
			t.Error(err)
		}
	}
}

// each calls fn with all leases that are in use.
func (t *stateLeases) each(fn func(l *stateLease)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range t.generations {
		for _, l := range g.leases {
			fn(l)
		}
	}
}

// While a machine sleeps its monotonic clock stops, and the leases of states run on. A state that is written after that is put
// on a lease which lasts.
func TestStateLeasesRunWhileTheMachineSleeps(t *testing.T) {
	t.Parallel()
	cfg, count := counting(clientConfig(shared(t).Addr))
	b := connectWith(t, cfg)
	limit := must[driver.Limit](t)(driver.Limit{Rate: 10, Per: time.Minute}.Normal())
	for _, key := range []string{"k", "another"} {
		must[driver.TakenOne](t)(b.TakeOne(t.Context(), "k", limit, driver.Ask{Min: 1, N: 1}))
		count.take()
		b.limits.each(func(l *stateLease) { l.wall = l.wall.Add(-(generationLife*minClass - 1) * time.Second) })
		must[driver.TakenOne](t)(b.TakeOne(t.Context(), key, limit, driver.Ask{Min: 1, N: 1}))
		if calls := count.take(); calls[methodGrant] != 1 {
			t.Errorf("limit %s after a sleep: %v, want one new lease", key, calls)
		}
	}
}

// A lease of states is replaced when many are bound to it, so that its end does not
// stop the server. Each state is counted once, and there are only so many leases.
func TestFewStatesShareALease(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b := connect(t, srv.Addr)
	limit := must[driver.Limit](t)(driver.Limit{Rate: 10_000_000, Per: time.Hour}.Normal())
	keys := 0
	leases := make(map[int64]bool) // that states were put on
	take := func(key string) {
		t.Helper()
		if one := must[driver.TakenOne](t)(b.TakeOne(t.Context(), key, limit, driver.Ask{Min: 1, N: 1})); one.N != 1 {
			t.Fatalf("%+v", one)
		}
		b.limits.each(func(l *stateLease) { leases[l.id] = true })
	}
	another := func() { keys++; take(fmt.Sprint("k", keys)) }
	each := b.limits.each
	full := func(l *stateLease) { l.states = maxStates }
	another()
	each(func(l *stateLease) { l.states = maxStates - 1 })
	for i, want := range []int{1, 2, 2} {
		if another(); len(leases) != want {
			t.Errorf("decision %d: %d leases, want %d", i, len(leases), want)
		}
	}
	each(full)
	for range 100 {
		take("k1")
	}
	if len(leases) != 2 {
		t.Errorf("after a hundred decisions on one limit: %d leases, want 2", len(leases))
	}
	for range 2 * maxLeases {
		each(full)
		another()
	}
	if len(leases) != maxLeases {
		t.Errorf("with ever more states there are %d leases, want %d", len(leases), maxLeases)
	}
	// As time goes by, a state that is used moves on twice in three lives of a lease, and what is forgotten is no lease's.
	const rounds = 12
	clear(leases)
	each(func(l *stateLease) { leases[l.id] = true })
	before, third := len(leases), time.Duration(classOf(limit.Per))*time.Second
	for range rounds {
		each(func(l *stateLease) { l.until = l.until.Add(-third) })
		for range 10 {
			take("k1")
		}
	}
	if n := len(leases) - before; n < rounds/3 || n > rounds/2+1 {
		t.Errorf("%d leases for one limit in %d thirds of a lease's life", n, rounds)
	}
	b.limits.mu.Lock()
	defer b.limits.mu.Unlock()
	for class, g := range b.limits.generations {
		if len(g.leases) > 1 {
			t.Errorf("%d leases of class %d are remembered", len(g.leases), class)
		}
	}
}
