package quorum_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

// Requests begin in one order, and who has the vote of a member pauses as long, whatever the order in which a client names
// the members.
func TestOrderIsTheServers(t *testing.T) {
	inBubble(t, func(x *trial) {
		one := x.client()
		slices.Reverse(x.servers)
		other := x.client()
		for _, c := range []*client{one, other} {
			for !quorum.Seen(c.Backend) { // the last member may be asked after the others have granted, which is not sent
				r, _ := c.take("k", driver.FloorRange)
				synctest.Wait()
				if err := c.Unlock(context.Background(), "k", r.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		ranks := make(map[int]bool)
		for i := range 3 {
			rank := quorum.Rank(one.Backend, i)
			if again := quorum.Rank(other.Backend, 2-i); again != rank {
				t.Errorf("the vote of a server has rank %d, and %d for who names it at another place", rank, again)
			}
			if place := quorum.Place(one.Backend, i); place != rank {
				t.Errorf("the server of rank %d is asked at place %d", rank, place)
			}
			ranks[rank] = true
		}
		if len(ranks) != 3 {
			t.Errorf("ranks %v, want three", ranks)
		}
	})
}
