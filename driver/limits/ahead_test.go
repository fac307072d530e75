package limits

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// TestAhead: a state that a clock has made which was a day ahead is fresh when a client has known it unchanged for
// the time in which the limit comes back. The client warns of it once a minute.
func TestAhead(t *testing.T) {
	for _, limit := range []string{"10/1s", "10/1s fixed-window", "10/1s burst=10", "10/10m"} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, now := parse(t, limit), func() int64 { return time.Now().UnixMicro() }
				var a Ahead
				var made State
				made.Take(l, now()+24*time.Hour.Microseconds(), driver.Ask{Min: 10, N: 10})
				look := func(version uint64) (fresh, warn bool) {
					s := made
					ahead, warn := a.Look(&s, "name", version, l, now())
					if ahead < 23*time.Hour || ahead > 24*time.Hour {
						t.Errorf("ahead by %v", ahead)
					}
					one, _ := s.Take(l, now(), driver.Ask{})
					return one.Remaining == 10, warn
				}
				if fresh, warn := look(1); fresh || !warn {
					t.Errorf("at first: fresh %v, warns %v", fresh, warn)
				}
				whole := made.Expiry(l, now())
				time.Sleep(whole - time.Microsecond)
				if fresh, _ := look(1); fresh {
					t.Errorf("fresh before %v", whole)
				}
				time.Sleep(time.Microsecond)
				if fresh, warn := look(1); !fresh || warn {
					t.Errorf("after %v: fresh %v, warns %v", whole, fresh, warn)
				}
				if fresh, _ := look(1); !fresh {
					t.Error("not fresh when it is read again")
				}
				if fresh, _ := look(2); fresh {
					t.Error("fresh although it was changed")
				}
				time.Sleep(time.Minute + whole)
				if fresh, warn := look(2); !fresh || !warn {
					t.Errorf("a minute later: fresh %v, warns %v", fresh, warn)
				}
			})
		})
	}
}

// TestAheadOfClocksThatAgree: a state that is ahead by what clocks may differ is left alone, and so is one that waits
// for the clock. Of the latter the client warns.
func TestAheadOfClocksThatAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := parse(t, "10/1s")
		for ahead, want := range map[time.Duration]bool{time.Minute: false, time.Minute + time.Second: true} {
			var a Ahead
			var s State
			s.Take(l, t0+ahead.Microseconds(), driver.Ask{Min: 10, N: 10})
			for range 2 {
				if _, warn := a.Look(&s, "name", 1, l, t0); warn != want {
					t.Errorf("%v ahead: warns %v", ahead, warn)
				}
				if one, _ := s.Take(l, t0, driver.Ask{}); one.Remaining > 0 {
					t.Errorf("%v ahead: %d remain", ahead, one.Remaining)
				}
				time.Sleep(time.Hour)
			}
		}
	})
}
