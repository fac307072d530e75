package etcd

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// TestNightlyPlainClientKeepsLongHolds: an application's clients have neither [DialOptions] nor keepalives of the connection. One
// member of three hangs for one and a half leases of 12 s, and every hold lives.
func TestNightlyPlainClientKeepsLongHolds(t *testing.T) {
	t.Parallel()
	const clients, each, ttl = 4, 3, 12 * time.Second
	c := testserver.EtcdCluster(t, testserver.WithFlags("--heartbeat-interval", "100", "--election-timeout", "1000"))
	var locks []*coord.Lock
	for i := range clients {
		client := must[*coord.Client](t)(coord.New(connectWith(t, clientv3.Config{Endpoints: c.Addrs(), Logger: zap.NewNop()})))
		t.Cleanup(func() {
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		})
		for k := range each {
			locks = append(locks, must[*coord.Lock](t)(client.TryLock(t.Context(), fmt.Sprintf("%d/%d", i, k), coord.TTL(ttl))))
		}
	}
	victim := c.Followers(c.Leader())[0]
	victim.Pause()
	defer victim.Resume()
	<-time.After(3 * ttl / 2) // the fault lasts that long
	for _, l := range locks {
		if err := l.Err(); err != nil {
			t.Errorf("the hold of %s: %v", l.Key(), err)
		}
	}
}
