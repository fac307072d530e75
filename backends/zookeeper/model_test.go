package zookeeper

import (
	"testing"
	"time"

	"github.com/coordgo/coord/internal/limitmodel"
)

// TestLimitsKeepToTheModel: a random walk finds nothing that the contract rules out. The clock is
// the leader's, as far as its answers show it.
func TestLimitsKeepToTheModel(t *testing.T) {
	t.Parallel()
	b := connect(t, urlWith(t, shared(t).Addr, calmSession))
	limitmodel.Test(t, limitmodel.Walk{
		Store: b, Now: time.Now, Pass: time.Sleep,
		Blur: 20 * time.Millisecond, Per: 50 * time.Millisecond,
	}, 600)
}
