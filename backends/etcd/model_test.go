package etcd

import (
	"testing"
	"time"

	"github.com/coordgo/coord/internal/limitmodel"
	"github.com/coordgo/coord/internal/testserver"
)

// TestLimitsKeepToTheModel: a random walk finds nothing that the contract rules out.
func TestLimitsKeepToTheModel(t *testing.T) {
	b := connect(t, testserver.Etcd(t).Addr)
	var clock limitmodel.Clock
	b.limits.now = clock.Now
	limitmodel.Test(t, limitmodel.Walk{
		Store: b, Now: clock.Now, Pass: clock.Pass, Back: clock.Back, Per: time.Second,
	}, 5000)
}
