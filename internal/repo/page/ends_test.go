package page

import (
	"fmt"
	"testing"

	"github.com/coordgo/coord"
)

// The script forgets the ends of leases that are over.
func TestEnds(t *testing.T) {
	s := serve(t, plain)
	b := s.open("/")
	b.shows("Live")
	for round := range 4 {
		var locks []*coord.Lock
		for i := range 20 {
			locks = append(locks, s.lock(fmt.Sprintf("r%d/%d", round, i)))
		}
		b.shows(fmt.Sprintf("r%d/19", round))
		for _, l := range locks {
			if err := l.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		b.lacks(fmt.Sprintf("r%d/19", round))
	}
	if n := eval[int64](b, "ends.size"); n > 20 {
		t.Errorf("%d ends are kept of no hold", n)
	}
}
