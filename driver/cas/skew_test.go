package cas_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

// skewed is a client of a shelf whose clock is off.
type skewed struct {
	*shelf
	off time.Duration
}

func (s skewed) Load(ctx context.Context, n cas.Name) (cas.Loaded[int], error) {
	c, err := s.shelf.Load(ctx, n)
	c.Now = c.Now.Add(s.off)
	return c, err
}

// A client whose clock is ahead takes nothing from a holder whose clock is behind before the
// holder's lease is over; without WithSkew it does.
func TestSkew(t *testing.T) {
	const skew = 2 * sec
	for _, tc := range []struct {
		name string
		opts []cas.Option
		safe bool
	}{
		{"allowed for", []cas.Option{cas.WithSkew(skew)}, true},
		{"less than nothing", []cas.Option{cas.WithSkew(-skew)}, false},
		{"not allowed for", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newShelf()
			slow := cas.New(driver.Info{Name: "shelf"}, cas.Optimistic(skewed{s, -skew / 2}), tc.opts...)
			fast := cas.New(driver.Info{Name: "shelf"}, cas.Optimistic(skewed{s, skew / 2}), tc.opts...)
			if one := mustTry(t, slow, "a", 10*sec); one <= 0 {
				t.Errorf("token %d", one)
			}
			s.pass(9 * sec)
			g, err := slow.Renew(t.Context(), "k", driver.Request{ID: "a", TTL: 10 * sec})
			if err != nil || g.TTL != 10*sec {
				t.Errorf("Renew: %v, %v: want exactly 10s: the rest is for others' clocks", g, err)
			}
			s.pass(10*sec - time.Microsecond)
			want := driver.ErrLocked
			if !tc.safe {
				want = nil
			}
			wantErr(t, "TryLock of the fast client before the lease is over", second(try(t, fast, "b", sec)), want)
			if tc.safe {
				s.pass(skew + time.Microsecond)
				mustTry(t, slow, "b", sec)
			}
		})
	}
}

// A store's clock that is seen once in a while is known as well as the shortest exchange allows.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ahead = 90 * time.Minute
		truth := func() time.Time { return time.Now().Add(ahead).Round(0) }
		var c cas.Clock
		if now, known := c.Now(); known {
			t.Errorf("before anything was learned: %v", now)
		}
		// check wants the clock no more than late behind the truth and never ahead of it.
		check := func(what string, late time.Duration) {
			t.Helper()
			now, known := c.Now()
			if d := truth().Sub(now); !known || d < 0 || d > late {
				t.Errorf("%s: the clock is %v behind (known: %v), want at most %v and never ahead", what, d, known, late)
			}
		}
		// exchange has the store stamp after there, and the reply come back after back.
		exchange := func(there, back time.Duration) {
			sent := time.Now()
			time.Sleep(there)
			stamp := truth()
			time.Sleep(back)
			c.Learn(sent, time.Now(), stamp, 0)
		}
		exchange(30*time.Millisecond, 70*time.Millisecond)
		check("a slow exchange", 70*time.Millisecond)
		exchange(time.Millisecond, 2*time.Millisecond)
		check("a quick one", 2*time.Millisecond)
		exchange(time.Second, time.Second)
		check("a slow one, which tells nothing new", 2*time.Millisecond)
		time.Sleep(time.Minute)
		check("a minute later", 2*time.Millisecond)
		time.Sleep(time.Nanosecond)
		if now, known := c.Now(); known {
			t.Errorf("more than a minute after it last learned: %v", now)
		}
		exchange(time.Millisecond, time.Millisecond)
		check("after it has learned anew", 2*time.Millisecond)
	})
}

// A local clock that runs fast or slow is corrected as far as an exchange tells.
func TestClockDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 4 * time.Millisecond
		for _, ppm := range []int64{-200, 200} {
			begin := time.Now()
			truth := func() time.Time {
				d := time.Since(begin)
				return begin.Add(d + d*time.Duration(ppm)/1_000_000).Round(0)
			}
			var c cas.Clock
			for range 500 {
				sent := time.Now()
				time.Sleep(trip / 2)
				stamp := truth()
				time.Sleep(trip / 2)
				c.Learn(sent, time.Now(), stamp, 0)
				now, known := c.Now()
				if off := now.Sub(truth()); !known || off > trip || off < -trip {
					t.Fatalf("%d ppm: %v off, known %v: want at most %v either way", ppm, off, known, trip)
				}
				time.Sleep(30 * time.Second)
			}
		}
	})
}

// A stamp in whole steps may be behind the store's clock by one.
func TestClockSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cas.Clock
		time.Sleep(700 * time.Millisecond)
		for range 100 {
			sent := time.Now()
			c.Learn(sent, time.Now(), time.Now().Truncate(time.Second), time.Second)
			now, known := c.Now()
			if d := time.Until(now); !known || d > 0 || d < -time.Second {
				t.Fatalf("%v from the truth, known %v: want behind it, at most a step", d, known)
			}
			time.Sleep(37 * time.Millisecond)
		}
		if now, _ := c.Now(); time.Since(now) > 50*time.Millisecond {
			t.Errorf("%v behind after stamps from all over the second", time.Since(now))
		}
	})
}
