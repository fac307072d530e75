package memcached

import (
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/crowd"
	"github.com/coordgo/coord/internal/testserver"
)

func TestCrowd(t *testing.T) {
	t.Parallel() // it mostly waits
	crowd.Small.Run(t, crowded)
}

func TestNightlyCrowd(t *testing.T) { crowd.Large.Run(t, crowded) }

func crowded(t *testing.T, _ time.Duration) crowd.Open {
	srv := testserver.Memcached(t)
	return func() driver.Backend { return connect(t, srv.Addr) }
}
