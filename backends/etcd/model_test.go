package etcd

import (
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/limitmodel"
	"github.com/coordgo/coord/internal/testlog"
)

// TestLimitsKeepToTheModel: a random walk finds nothing that the contract rules out.
func TestLimitsKeepToTheModel(t *testing.T) {
	t.Parallel()
	b := connect(t, shared(t).Addr)
	var clock limitmodel.Clock
	b.limits.now = clock.Now
	limitmodel.Test(t, limitmodel.Walk{
		Store: b, Now: clock.Now, Pass: clock.Pass, Back: clock.Back, Per: time.Minute, // leases end in real time
	}, 5000)
}

// TestClockADayAhead: one client's clock is a day ahead, and then that client is gone. The others do not wait for a
// day, nor for the leases of the states, and warn of it once.
func TestClockADayAhead(t *testing.T) {
	t.Parallel()
	addr := shared(t).Addr
	var log testlog.Buffer
	wrong, right := connect(t, addr), connectWith(t, clientConfig(addr), WithLogger(log.Logger()))
	wrong.limits.now = func() time.Time { return time.Now().Add(24 * time.Hour) }
	l := driver.Limit{Rate: 10, Per: time.Second, Algorithm: driver.SlidingWindow}
	one := func(b *backend, key string) int {
		taken, err := b.TakeOne(t.Context(), key, l, driver.Ask{Min: 10, N: 10})
		if err != nil {
			t.Fatal(err)
		}
		return taken.N
	}
	several := func(b *backend, keys ...string) int {
		var demands []driver.Demand
		for _, key := range keys {
			demands = append(demands, driver.Demand{Key: key, Limit: l, N: 10})
		}
		taken, err := b.TakeAll(t.Context(), demands)
		if err != nil {
			t.Fatal(err)
		}
		return taken[0].Asks[0].N
	}
	if n := one(wrong, "one") + several(wrong, "two", "three"); n != 20 {
		t.Fatalf("of fresh limits: %d", n)
	}
	until(t, time.Minute, "a limit whose state is a day ahead", func() bool { return one(right, "one") == 10 })
	until(t, time.Minute, "several limits whose states are a day ahead", func() bool { return several(right, "two", "three") == 10 })
	if n := strings.Count(log.String(), "clock is ahead of this one's"); n != 1 {
		t.Errorf("warned %d times, want once: %s", n, log.String())
	}
}
