//go:build linux

package file

import (
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
	"github.com/coordgo/coord/internal/limitmodel"
)

// TestLimitsKeepToTheModel: a random walk finds nothing that the contract rules out, though the
// clock is set forward and back, as after a restart of the machine.
func TestLimitsKeepToTheModel(t *testing.T) {
	t.Parallel()
	s := newStore(t, t.TempDir())
	limitmodel.Test(t, limitmodel.Walk{
		Store: cas.New(driver.Info{Name: "file", Claims: Claims}, s), Per: time.Second,
		Now: func() time.Time {
			now, err := s.clock.Load().now()
			if err != nil {
				t.Fatal(err)
			}
			return now
		},
		Pass: func(d time.Duration) { s.clock.Load().offset += d },
		Back: func(d time.Duration) { s.clock.Load().offset -= d },
	}, 30_000)
}
