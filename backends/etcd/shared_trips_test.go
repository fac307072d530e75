package etcd

import (
	"errors"
	"testing"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// What each step costs. A take is one request where this client alone holds the key, or nobody, else two; a reader does not
// care who else reads, but for its slot.
func TestSharedRoundTrips(t *testing.T) {
	srv := testserver.Etcd(t)
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
	var mine, head driver.Request
	for _, step := range []struct {
		name         string
		ranges, txns int
		do           func()
	}{
		{"a reader of a new key", 0, 1, func() { mine = take(b, "r", reads) }},
		{"a second reader", 0, 1, func() { take(b, "r", reads) }},
		{"its release", 0, 1, func() { release("r", mine) }},
		{"permits", 0, 1, func() { take(b, "p", permits(1, 3)) }},
		{"more permits", 0, 1, func() { mine = take(b, "p", permits(1, 3)) }},
		{"more permits once more", 0, 1, func() { take(b, "p", permits(1, 3)) }},
		{"one too many", 1, 0, func() { refused("p", share1("x", permits(1, 3))) }},
		{"a release and a take", 0, 2, func() { release("p", mine); take(b, "p", permits(1, 3)) }},
		{"a writer", 0, 1, func() { mine = take(b, "w", writes) }},
		{"its downgrade", 0, 1, func() {
			mine.Share = reads
			must[driver.Grant](t)(b.Shared().Renew(t.Context(), "w", mine))
		}},
		{"the release of that", 0, 1, func() { release("w", mine) }},
		{"somebody else's key, for the first time", 0, 2, func() { take(other, "o", reads); mine = take(b, "o", reads) }},
		{"somebody else's key, again", 1, 1, func() { take(b, "o", reads) }},
		{"a reader there who was given the same slot twice", 0, 1, func() {
			release("o", take(b, "o", reads))
			release("o", take(b, "o", reads))
			count.take()
			mine = take(b, "o", reads)
		}},
		{"a refusal there", 1, 0, func() { refused("o", share1("x", writes)) }},
		{"the head", 1, 1, func() { head = refused("o", asHead(share1("x", writes))) }},
		{"the head, again", 1, 0, func() { refused("o", head) }},
		{"the release of the head", 0, 1, func() { release("o", head) }},
		{"a release there", 0, 1, func() { release("o", mine) }},
	} {
		count.take()
		step.do()
		calls := count.take()
		delete(calls, methodWatch) // the first of a hold that is older than guardAfter
		if calls[methodTxn] != step.txns || calls[methodRange] != step.ranges || calls[methodKeepAlive] != 0 {
			t.Errorf("%s: %v, want %d transactions and %d reads", step.name, calls, step.txns, step.ranges)
		}
	}
}
