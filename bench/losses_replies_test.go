package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordgo/coord/conformance"
)

// replies: the replies of two servers to a release are lost. What is the holder told, and who gets the key next?
func (x *lossTrial) replies(t *testing.T) {
	const ttl, keys = 6 * time.Second, 20
	var proxies []*conformance.Proxy
	var addrs []string
	for _, addr := range x.addrs {
		p, err := conformance.NewProxy(addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		proxies, addrs = append(proxies, p), append(addrs, p.Addr())
	}
	c, rival := x.begin(t, addrs, ttl), x.begin(t, x.addrs, ttl)
	failed, taken := 0, 0
	var why error
	for i := range keys {
		key := fmt.Sprint("replies/", i)
		h, err := c.lock(t.Context(), key, ttl)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range proxies[:2] {
			p.DropReply()
		}
		if err := h.unlock(t.Context()); err != nil {
			failed++
			why = err
		}
		for _, p := range proxies {
			p.Heal()
		}
		begun := time.Now()
		next, err := rival.lock(t.Context(), key, ttl)
		if err != nil {
			t.Fatal(err)
		}
		if time.Since(begun) > ttl/2 {
			taken++
		}
		if err := next.unlock(t.Context()); err != nil {
			t.Errorf("%s: unlock: %v", x.lib.name, err)
		}
	}
	if why != nil {
		t.Logf("%s: a release whose replies are lost: %v", x.lib.name, why)
	}
	x.put("two servers lose their replies to a release: the holder is told that it failed", "%d of %d", failed, keys)
	x.put("the same: the key stays taken for half a lease", "%d of %d", taken, keys)
	if x.isCoord() && taken > 0 {
		t.Errorf("%d of %d keys stay taken: want none", taken, keys)
	}
}
