package redis

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

func crowded(t *testing.T, _ time.Duration) crowd.Open {
	first := shared(t)
	o := optionsOf(first)
	o.ReadTimeout, o.WriteTimeout = hung, hung // of so many requests at once
	return func() driver.Backend { return connectWith(t, o) }
}
