package redis

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// TestNightlyOpensWhileAMasterHangs: a client opens while one master of three does not answer, whichever is named first, and
// locks keys on the other two.
func TestNightlyOpensWhileAMasterHangs(t *testing.T) {
	t.Parallel()
	c, hung := partlyHung(t)
	hung.Pause()
	defer hung.Resume()
	addrs := c.Addrs()
	for i := range addrs {
		order := slices.Concat(addrs[i:], addrs[:i])
		u := must[*url.URL](t)(url.Parse("redis+cluster://" + strings.Join(order, ",")))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		opened, err := Open(ctx, u)
		if err != nil {
			t.Fatalf("Open with %s first, of which %s hangs: %v", order[0], hung.Addr, err)
		}
		b, locked := opened.(*backend), 0
		for k := range 12 {
			key := fmt.Sprintf("%d/%d", i, k)
			if b.Partition(key) == hung.Addr {
				continue
			}
			must[driver.Grant](t)(b.TryLock(ctx, key, request("a", time.Minute)))
			locked++
		}
		if locked == 0 {
			t.Error("no key on the masters that answer: the test is useless")
		}
		cancel()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
