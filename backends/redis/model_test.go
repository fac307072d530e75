package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/limitmodel"
)

// TestLimitsKeepToTheModel: a random walk finds nothing that the contract rules out. The server's clock is
// set by a key that the scripts add to it.
func TestLimitsKeepToTheModel(t *testing.T) {
	t.Parallel()
	b := shared(t)
	settableClock(b)
	var clock limitmodel.Clock
	set := func(move func(time.Duration), sign time.Duration) func(time.Duration) {
		return func(d time.Duration) {
			d = d.Truncate(time.Microsecond)
			move(d)
			if err := b.client.IncrBy(t.Context(), "ahead", (sign * d).Microseconds()).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	limitmodel.Test(t, limitmodel.Walk{
		Store: b, Now: clock.Now, Pass: set(clock.Pass, 1), Back: set(clock.Back, -1), Per: time.Minute, // keys expire in real time
	}, 20_000)
}

// settableClock makes the scripts add a key to the server's clock.
func settableClock(b *backend) {
	b.limits = newLimitScripts(func(source string) string {
		return strings.ReplaceAll(source, "local now = time[1] * 1000000 + time[2]",
			"local now = time[1] * 1000000 + time[2] + (redis.call('GET', 'ahead') or 0)")
	})
}

// TestClockADayAhead: the server's clock jumps a day ahead, and is set right. No limit stands still for a day.
func TestClockADayAhead(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"10/1s", "10/1s fixed-window", "10/1s burst=10"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			b := shared(t)
			settableClock(b)
			l, err := driver.ParseLimit(limit)
			if err == nil {
				l, err = l.Normal()
			}
			if err != nil {
				t.Fatal(err)
			}
			take := func() driver.TakenOne {
				one, err := b.TakeOne(t.Context(), "k", l, driver.Ask{Min: 10, N: 10})
				if err != nil {
					t.Fatal(err)
				}
				return one
			}
			if err := b.client.Set(t.Context(), "ahead", (24 * time.Hour).Microseconds(), 0).Err(); err != nil {
				t.Fatal(err)
			}
			if one := take(); one.N != 10 {
				t.Fatalf("of a fresh limit: %+v", one)
			}
			if err := b.client.Set(t.Context(), "ahead", 0, 0).Err(); err != nil {
				t.Fatal(err)
			}
			one := take()
			if one.RetryAfter > 2*time.Second {
				t.Fatalf("when the clock is right again: %+v", one)
			}
			for start := time.Now(); one.N == 0; one = take() {
				if time.Since(start) > time.Minute {
					t.Fatalf("after a minute: %+v", one)
				}
				time.Sleep(50 * time.Millisecond)
			}
			if one := take(); one.RetryAfter > 2*time.Second {
				t.Errorf("after what was granted: %+v", one)
			}
		})
	}
}
