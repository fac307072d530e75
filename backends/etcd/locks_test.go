package etcd

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// An id whose hold was lost takes a place in the queue again, and what it has then is known to the
// client: it is renewed, and ends.
func TestLockAgainAfterLoss(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	r := request("a", 2*time.Second)
	first := must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	must[*clientv3.DeleteResponse](t)(b.client.Delete(t.Context(), b.names.entry("k", 0)))
	if _, err := b.Renew(t.Context(), "k", r); !errors.Is(err, driver.ErrNotHeld) {
		t.Fatalf("Renew of a lost hold: %v", err)
	}
	again := must[driver.Grant](t)(b.Lock(t.Context(), "k", r, func() {}))
	if again.Token <= first.Token {
		t.Errorf("token %d after %d", again.Token, first.Token)
	}
	must[driver.Grant](t)(b.Renew(t.Context(), "k", r))
	until(t, hung, "the hold to end by itself", func() bool {
		return entriesOf(t, b.client, b.names.queue("k")).Count == 0
	})
}

// A broken hold ends at its own deadline, though its client keeps the lease alive for others.
func TestBrokenHoldEnds(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	operator := connect(t, srv.Addr)
	const ttl = 4 * time.Second // a busy machine does not lose it
	other, r := request("other", ttl), request("a", ttl)
	must[driver.Grant](t)(b.TryLock(t.Context(), "other", other))
	g := must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	if err := operator.Break(t.Context(), "k", r.ID); err != nil {
		t.Fatal(err)
	}
	h := must[driver.Holder](t)(operator.Inspect(t.Context(), "k"))
	if !h.Released || h.ID != r.ID || int64(h.Token) != g.Token || h.Waiters != 0 {
		t.Errorf("%+v", h)
	}
	for op, err := range map[string]error{
		"Renew":  func() error { _, err := b.Renew(t.Context(), "k", r); return err }(),
		"Unlock": b.Unlock(t.Context(), "k", r.ID),
	} {
		if !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("%s of a broken hold: %v", op, err)
		}
	}
	until(t, hung, "the broken hold to end", func() bool {
		must[driver.Grant](t)(b.Renew(t.Context(), "other", other))
		return entriesOf(t, b.client, b.names.queue("k")).Count == 0
	})
	if now := time.Now(); now.Before(g.Since.Add(g.TTL)) {
		t.Errorf("free %v before the lease's end", g.Since.Add(g.TTL).Sub(now))
	}
}

// Close comes while locks are taken, waited for and renewed: nothing panics, nothing hangs,
// and nothing is left at the store.
func TestCloseUnderLoad(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	client := raw(t, srv.Addr)
	for range 10 {
		b := must[driver.Backend](t)(New(client, WithNamespace(testserver.NameOf(t)))).(*backend)
		var wg sync.WaitGroup
		var holds atomic.Int64
		for range 8 {
			wg.Go(func() {
				for {
					r := request("a", 2*time.Second)
					if _, err := b.Lock(t.Context(), "k", r, func() {}); err != nil {
						return
					}
					holds.Add(1)
					if b.Unlock(t.Context(), "k", r.ID) != nil {
						return
					}
				}
			})
		}
		until(t, hung, "a few locks", func() bool { return holds.Load() >= 5 })
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		until(t, hung, "the queue to be empty", func() bool { return entriesOf(t, client, b.names.queue("k")).Count == 0 })
	}
}
