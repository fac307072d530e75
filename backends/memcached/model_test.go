package memcached

import (
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/limitmodel"
	"github.com/coordgo/coord/internal/testserver"
)

// TestLimitsKeepToTheModel: a random walk finds nothing that the contract rules out.
func TestLimitsKeepToTheModel(t *testing.T) {
	b := connect(t, testserver.Memcached(t, testserver.WithFlags("-M")).Addr)
	var clock limitmodel.Clock
	b.clock = clock.Now
	limitmodel.Test(t, limitmodel.Walk{
		Store: b, Now: clock.Now, Pass: clock.Pass, Back: clock.Back, Per: time.Second,
	}, 20_000)
}

// TestClockADayAhead: one client's clock is a day ahead, and then that client is gone. The others do not wait
// for a day.
func TestClockADayAhead(t *testing.T) {
	addr := testserver.Memcached(t, testserver.WithFlags("-M")).Addr
	wrong, right := connect(t, addr), connect(t, addr)
	wrong.clock = func() time.Time { return time.Now().Add(24 * time.Hour) }
	l := driver.Limit{Rate: 10, Per: time.Second, Algorithm: driver.SlidingWindow}
	take := func(b *backend, n int) driver.TakenOne {
		one, err := b.TakeOne(t.Context(), "k", l, driver.Ask{Min: n, N: n})
		if err != nil {
			t.Fatal(err)
		}
		return one
	}
	if one := take(wrong, 1); one.N != 1 {
		t.Fatalf("of a fresh limit: %+v", one)
	}
	if one := take(right, 9); one.N != 9 {
		t.Fatalf("what is left of it: %+v", one)
	}
	one := take(right, 10)
	if one.N > 0 || one.RetryAfter > 2*time.Second {
		t.Fatalf("of a spent limit: %+v", one)
	}
	for start := time.Now(); one.N == 0; one = take(right, 10) {
		if time.Since(start) > time.Minute {
			t.Fatalf("after a minute: %+v", one)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
