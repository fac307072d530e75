package zookeeper

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// While the leader hangs nothing is served until the others have elected another one, which they begin after
// syncLimit ticks, here 3 s. What is held lives on: half of the session is certain at the least, and three quarters
// of one that has just begun.
func TestNightlyHoldsOutliveAHangingLeader(t *testing.T) {
	const session = 30 * time.Second // much longer than an election
	c := testserver.ZooKeeperCluster(t, testserver.WithConfig("syncLimit=30"))
	leader := c.Leader()
	var holds []*coord.Lock
	onLeader := 0
	for i := range 4 {
		b := connect(t, urlWithHosts(t, c.Addrs(), session))
		if nodeOf(t, c, b) == leader {
			onLeader++
		}
		client := must[*coord.Client](t)(coord.New(b))
		defer client.Close()
		for n := range 10 {
			holds = append(holds, must[*coord.Lock](t)(client.Lock(t.Context(), fmt.Sprint(i, " ", n))))
		}
	}
	hung := time.Now()
	leader.Pause()
	for _, l := range holds {
		eventually(t, "a renewal at another leader", func() bool {
			if err := l.Err(); err != nil {
				t.Fatalf("%s, %v after the leader hung: %v", l.Key(), time.Since(hung), err)
			}
			return l.Deadline().After(hung.Add(session * 3 / 4))
		})
	}
	t.Logf("%d holds of 4 clients, %d of which were on the leader, renewed %v after it hung", len(holds), onLeader, time.Since(hung))
	leader.Resume()
}
