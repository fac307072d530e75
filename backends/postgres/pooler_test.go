package postgres

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// pooled are the cases that run behind a pooler, too: of those that are not slow the ones with a fault or another process, the
// ones of many callers, and the first of each clause. COORD_POSTGRES_POOLED=all has all run.
func pooled() func(conformance.Case) bool {
	shown, ids := map[string]bool{}, map[string]bool{}
	for _, c := range conformance.Cases() {
		first := !c.Slow && !shown[c.Clause]
		if first {
			shown[c.Clause] = true
		}
		quick := !c.Slow && (len(c.Hooks) > 0 || strings.HasPrefix(c.Name, "many-"))
		ids[c.ID] = first || quick || os.Getenv("COORD_POSTGRES_POOLED") == "all"
	}
	return func(c conformance.Case) bool { return ids[c.ID] }
}

// A pooler gives each transaction another session. The suite runs behind it.
func TestConformanceOverPgBouncer(t *testing.T) {
	t.Parallel() // it mostly waits
	srv := ownServer(t)
	pooler := testserver.PgBouncer(t, srv)
	openAt := func(tb conformance.TB, addr string) driver.Backend { return openIn(tb, patientURL(t, addr)) }
	open := func(tb conformance.TB) driver.Backend { return openAt(tb, pooler.Addr) }
	f := faults(t, srv, openAt)
	f.Link = conformance.TCPFaults(pooler.Addr, openAt).Link
	f.Skew = func(tb conformance.TB, _ time.Duration) driver.Backend { return open(tb) }
	s := conformance.Suite{Only: pooled(), Harness: conformance.Harness{Open: open, Claims: Claims, Faults: f, WorkerURL: patientURL(t, pooler.Addr)}}
	s.Test(t)
}

// Behind a pooler of transactions waiters of several clients are granted in the order in which they came.
func TestPgBouncerKeepsTheOrder(t *testing.T) {
	t.Parallel()
	srv := server(t)
	pooler := testserver.PgBouncer(t, srv)
	clients := []*backend{open(t, patientURL(t, pooler.Addr)), open(t, patientURL(t, pooler.Addr)), open(t, patientURL(t, pooler.Addr))}
	holder := request("holder", time.Hour)
	mustTry(t, clients[0], "k", holder)
	var wg sync.WaitGroup
	defer wg.Wait()
	var mu sync.Mutex
	var order []int
	const waiters = 6
	for i := range waiters {
		b := clients[i%len(clients)]
		wg.Go(func() {
			r := request("waiter", time.Hour)
			if _, err := b.Lock(t.Context(), "k", r, func() {}); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
				t.Error(err)
			}
		})
		for h := (driver.Holder{}); h.Waiters != i+1; {
			h = must[driver.Holder](t)(clients[0].Inspect(t.Context(), "k"))
		}
	}
	if err := clients[0].Unlock(t.Context(), "k", holder.ID); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if !slices.IsSorted(order) || len(order) != waiters {
		t.Errorf("granted in the order %v", order)
	}
}

// The pooler, and not the server, is away: that is an outage like any other.
func TestNightlyPgBouncerIsAway(t *testing.T) {
	t.Parallel()
	srv := ownServer(t)
	pooler := testserver.PgBouncer(t, srv)
	b := open(t, patientURL(t, pooler.Addr))
	r := request("a", time.Hour)
	before := mustTry(t, b, "k", r)
	pooler.Kill()
	if _, err := b.TryLock(t.Context(), "k2", request("b", time.Hour)); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("TryLock: %v, want ErrNotSent", err)
	}
	pooler.Restart()
	for range 3 {
		if g, err := b.Renew(t.Context(), "k", r); err != nil || g.Token != before.Token {
			t.Errorf("Renew: token %d, %v, want %d", g.Token, err, before.Token)
		}
	}
	srv.Restart() // behind it
	settle := func(ctx context.Context) error { _, err := b.Renew(ctx, "k", r); return err }
	if err := settled(t, settle); err != nil {
		t.Errorf("Renew after a restart of the server: %v", err)
	}
}
