package memcached

import (
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/limitmodel"
	"github.com/coordgo/coord/internal/testlog"
	"github.com/coordgo/coord/internal/testserver"
)

// TestLimitsKeepToTheModel: a random walk finds nothing that the contract rules out.
func TestLimitsKeepToTheModel(t *testing.T) {
	t.Parallel()
	b := connect(t, testserver.Memcached(t, testserver.WithFlags("-M")).Addr)
	var clock limitmodel.Clock
	b.clock = clock.Now
	limitmodel.Test(t, limitmodel.Walk{
		Store: b, Now: clock.Now, Pass: clock.Pass, Back: clock.Back, Per: time.Minute, // items expire in real time
	}, 20_000)
}

// TestClockADayAhead: one client's clock is a day ahead, and then that client is gone. The others do not wait
// for a day, however long states are kept, and warn of it once.
func TestClockADayAhead(t *testing.T) {
	t.Parallel()
	for name, missing := range map[string]OnMissing{"full": Full, "empty": Empty} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := testserver.Memcached(t, testserver.WithFlags("-M")).Addr
			var log testlog.Buffer
			wrong := connect(t, addr, WithOnMissing(missing))
			right := connect(t, addr, WithOnMissing(missing), WithLogger(log.Logger()))
			wrong.clock = func() time.Time { return time.Now().Add(24 * time.Hour) }
			l := driver.Limit{Rate: 10, Per: time.Second, Algorithm: driver.SlidingWindow}
			take := func(b *backend) driver.TakenOne {
				one, err := b.TakeOne(t.Context(), "k", l, driver.Ask{Min: 10, N: 10})
				if err != nil {
					t.Fatal(err)
				}
				return one
			}
			if one := take(wrong); one.N != 10 && missing == Full {
				t.Fatalf("of a fresh limit: %+v", one)
			}
			one := take(right)
			if one.RetryAfter > 2*time.Second {
				t.Fatalf("of a spent limit: %+v", one)
			}
			for start := time.Now(); one.N == 0; one = take(right) {
				if time.Since(start) > time.Minute {
					t.Fatalf("after a minute: %+v", one)
				}
				time.Sleep(50 * time.Millisecond)
			}
			if n := strings.Count(log.String(), "clock is ahead of this one's"); n != 1 {
				t.Errorf("warned %d times, want once: %s", n, log.String())
			}
		})
	}
}
