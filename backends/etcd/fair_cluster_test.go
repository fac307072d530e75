package etcd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// Whichever member is cut off from the others, a client that knows all of them hears its doorbell
// again, at a member that still pushes.
func TestDoorbellWhenAMemberIsCutOff(t *testing.T) {
	c := testserver.EtcdCluster(t, testserver.WithNetwork())
	b := connect(t, c.Addrs()...)
	b.bell.pulse = time.Second
	news := listening(t, b)
	for i, member := range append(c.Followers(c.Leader()), c.Leader()) {
		c.Cut(member)
		until(t, 20*time.Second, "a leader of the others", func() bool { l := c.Leader(); return l != nil && l != member })
		others := c.Followers(member)
		other := connect(t, others[0].Addr, others[1].Addr)
		within := func(do func(ctx context.Context) bool) func() bool {
			return func() bool { // what went to the member that is cut off is asked for again
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				return do(ctx)
			}
		}
		var key string
		var r driver.Request
		tries := 0
		until(t, 30*time.Second, "a grant that tells of nobody", within(func(ctx context.Context) bool {
			tries++
			key, r = fmt.Sprint("k", i, "-", tries), request("holder", 60*time.Second)
			g, err := b.TryLock(ctx, key, r)
			return err == nil && !g.FairWaiting
		}))
		ctx, cancel := context.WithCancel(t.Context())
		done := waitInLine(t, ctx, other, key, fairly("fair"), 2)
		until(t, 30*time.Second, "the holder to be told", func() bool { return news.of(key) > 0 })
		until(t, 30*time.Second, "a renewal that tells of it", within(func(ctx context.Context) bool {
			g, err := b.Renew(ctx, key, r)
			return err == nil && g.FairWaiting
		}))
		cancel()
		soonResult(t, done, 5*time.Second, "the end of the wait")
		c.Heal()
	}
}
