package zookeeper

import (
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/crowd"
)

func TestCrowd(t *testing.T) {
	t.Parallel() // it mostly waits
	crowd.Small.Run(t, crowded)
}

func TestNightlyCrowd(t *testing.T) { crowd.Large.Run(t, crowded) }

func crowded(t *testing.T, session time.Duration) crowd.Open {
	srv := shared(t)
	if session == 0 {
		session = 8 * time.Second // twice the shortest of a server with the usual ticks
	}
	return func() driver.Backend { return connect(t, urlWith(t, srv.Addr, session)) }
}
