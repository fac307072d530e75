package etcd

import (
	"errors"
	"testing"

	"github.com/coordgo/coord/driver"
)

// What each step costs: a take a read and a transaction, a refusal the read alone, a release a transaction.
func TestSharedRoundTrips(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	cfg, count := counting(clientConfig(srv.Addr))
	b, other := connectWith(t, cfg), connect(t, srv.Addr)
	take := func(b *backend, key string, share driver.Share) driver.Request {
		t.Helper()
		r := share1("a", share)
		must[driver.Grant](t)(tryShared(b, key, r))
		return r
	}
	release := func(key string, r driver.Request) {
		t.Helper()
		if err := b.Shared().Unlock(t.Context(), key, r.ID); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(key string, r driver.Request) driver.Request {
		t.Helper()
		if _, err := tryShared(b, key, r); !errors.Is(err, driver.ErrLocked) {
			t.Fatal(err)
		}
		return r
	}
	take(b, "warm up", reads)
	var mine, theirs, head driver.Request
	for _, step := range []struct {
		name         string
		ranges, txns int
		do           func()
	}{
		{"a reader of a new key", 1, 1, func() { mine = take(b, "r", reads) }},
		{"a second reader", 1, 1, func() { take(b, "r", reads) }},
		{"its renewal", 0, 1, func() { must[driver.Grant](t)(b.Shared().Renew(t.Context(), "r", mine)) }},
		{"its release", 0, 1, func() { release("r", mine) }},
		{"permits", 1, 1, func() { take(b, "p", permits(1, 3)) }},
		{"more permits", 1, 1, func() { mine = take(b, "p", permits(1, 3)) }},
		{"a third permit", 1, 1, func() { take(b, "p", permits(1, 3)) }},
		{"one too many", 1, 0, func() { refused("p", share1("x", permits(1, 3))) }},
		{"a writer", 1, 1, func() { mine = take(b, "w", writes) }},
		{"its downgrade", 1, 1, func() {
			mine.Share = reads
			must[driver.Grant](t)(b.Shared().Renew(t.Context(), "w", mine))
		}},
		{"a renewal after it", 0, 1, func() { must[driver.Grant](t)(b.Shared().Renew(t.Context(), "w", mine)) }},
		{"the release of that", 0, 1, func() { release("w", mine) }},
		{"somebody else's key", 1, 1, func() {
			theirs = take(other, "o", reads)
			mine = take(b, "o", reads)
		}},
		{"a refusal there", 1, 0, func() { refused("o", share1("x", writes)) }},
		{"the head", 1, 1, func() { head = refused("o", asHead(share1("x", writes))) }},
		{"the head, again", 1, 0, func() { refused("o", head) }},
		{"the release of the head", 0, 1, func() { release("o", head) }},
		{"a release there", 0, 1, func() { release("o", mine) }},
		{"the next head, and its grant", 2, 2, func() {
			refused("o", head)
			if err := other.Shared().Unlock(t.Context(), "o", theirs.ID); err != nil {
				t.Fatal(err)
			}
			must[driver.Grant](t)(tryShared(b, "o", head))
		}},
	} {
		count.take()
		step.do()
		calls := count.take()
		if calls[methodTxn] != step.txns || calls[methodRange] != step.ranges || calls[methodKeepAlive] != 0 {
			t.Errorf("%s: %v, want %d transactions and %d reads", step.name, calls, step.txns, step.ranges)
		}
	}
}
