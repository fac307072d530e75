package etcd

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// The leader stands still, or dies, for longer than a lease lasts. Every hold moves to a lease of the next leader in time,
// and stays there when the old one goes on.
func TestNightlyHoldsOutliveTheLeader(t *testing.T) {
	for name, fault := range map[string]struct{ begin, end func(*testserver.Server) }{
		"stopped": {(*testserver.Server).Pause, (*testserver.Server).Resume},
		"killed":  {(*testserver.Server).Kill, (*testserver.Server).Start},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const clients, each, ttl = 12, 4, 8 * time.Second
			c := testserver.EtcdCluster(t, testserver.WithFlags("--heartbeat-interval", "100", "--election-timeout", "1000"))
			cfg, _, err := parseURL(must[*url.URL](t)(url.Parse("etcd://" + strings.Join(c.Addrs(), ","))))
			if err != nil {
				t.Fatal(err)
			}
			var locks []*coord.Lock
			for i := range clients {
				client := must[*coord.Client](t)(coord.New(connectWith(t, cfg)))
				t.Cleanup(func() {
					if err := client.Close(); err != nil {
						t.Error(err)
					}
				})
				for k := range each {
					locks = append(locks, must[*coord.Lock](t)(client.TryLock(t.Context(), fmt.Sprintf("%d/%d", i, k), coord.TTL(ttl))))
				}
			}
			leader := c.Leader()
			fault.begin(leader)
			<-time.After(5 * ttl / 4) // the fault lasts that long
			fault.end(leader)
			<-time.After(ttl / 3) // each hold is renewed once more
			lost := 0
			for _, l := range locks {
				if l.Err() != nil {
					lost++
				} else if err := l.Unlock(t.Context()); err != nil { // it is there at the store, too
					t.Errorf("Unlock of %s: %v", l.Key(), err)
				}
			}
			if lost > 0 {
				t.Errorf("%d of %d holds are lost", lost, len(locks))
			}
		})
	}
}
