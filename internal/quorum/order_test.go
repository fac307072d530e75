package quorum_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

// Of contenders, the one with the vote of a member waits as long whatever the order in which it names the members: one that
// names them in another order would starve.
func TestPausesGoByTheServer(t *testing.T) {
	inBubble(t, func(x *trial) {
		one := x.client()
		slices.Reverse(x.servers)
		other := x.client()
		for _, c := range []*client{one, other} {
			r, _ := c.take("k", driver.FloorRange)
			synctest.Wait() // until the last member has answered, too
			if err := c.Unlock(context.Background(), "k", r.ID); err != nil {
				t.Fatal(err)
			}
		}
		ranks := make(map[int]bool)
		for i := range 3 {
			rank := quorum.Rank(one.Backend, i)
			if again := quorum.Rank(other.Backend, 2-i); again != rank {
				t.Errorf("the vote of a server has rank %d, and %d for who names it at another place", rank, again)
			}
			ranks[rank] = true
		}
		if len(ranks) != 3 {
			t.Errorf("ranks %v, want three", ranks)
		}
	})
}
