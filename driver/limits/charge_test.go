package limits

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coordgo/coord/driver"
)

// charge is one call of Charge, and what it answers.
type charge struct {
	at   time.Duration // since the beginning
	n    int
	want driver.Charged
}

func TestCharge(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	// On a boundary of the windows.
	const begin = t0 - t0%1_000_000
	for name, tt := range map[string]struct {
		limit string
		calls []charge
	}{
		"a bucket": {"10/1s burst=10", []charge{
			{0, 4, driver.Charged{Remaining: 6, ResetAfter: 400 * ms}},
			{0, 100, driver.Charged{RetryAfter: 9500 * ms, ResetAfter: 10400 * ms}},
			{s, 0, driver.Charged{RetryAfter: 8500 * ms, ResetAfter: 9400 * ms}},
			{s, -90, driver.Charged{Remaining: 6, ResetAfter: 400 * ms}},
			{s, -90, driver.Charged{Remaining: 10}},
			{s, -90, driver.Charged{Remaining: 10}},
		}},
		"a fixed window": {"5/1s fixed-window", []charge{
			{0, 3, driver.Charged{Remaining: 2, ResetAfter: s}},
			{500 * ms, 100, driver.Charged{RetryAfter: 500 * ms, ResetAfter: 500 * ms}},
			{500 * ms, -99, driver.Charged{Remaining: 1, ResetAfter: 500 * ms}},
			{600 * ms, 100, driver.Charged{RetryAfter: 400 * ms, ResetAfter: 400 * ms}},
			{s, 0, driver.Charged{Remaining: 5}},
			{s, -4, driver.Charged{Remaining: 5}},
		}},
		"a sliding window": {"5/1s", []charge{
			{0, 3, driver.Charged{Remaining: 2, ResetAfter: 1010 * ms}},
			{500 * ms, 4, driver.Charged{RetryAfter: 510 * ms, ResetAfter: 1010 * ms}},
			{500 * ms, -1, driver.Charged{RetryAfter: 510 * ms, ResetAfter: 1010 * ms}},
			{500 * ms, -1, driver.Charged{RetryAfter: 510 * ms, ResetAfter: 1010 * ms}},
			{500 * ms, -3, driver.Charged{Remaining: 3, ResetAfter: 510 * ms}},
			{500 * ms, 100, driver.Charged{RetryAfter: 1010 * ms, ResetAfter: 1010 * ms}},
			{1510 * ms, 0, driver.Charged{Remaining: 5}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := parse(t, tt.limit)
			var st State
			for i, c := range tt.calls {
				if got, _ := st.Charge(l, begin+us(c.at), c.n); got != c.want {
					t.Errorf("call %d: got %+v\nwant %+v", i, got, c.want)
				}
			}
		})
	}
}

// event is permits that were spent or charged at a time, or given back; by is the number of the call that decided it.
type event struct {
	use
	by     int
	charge bool
}

// charged draws a charge or a return, and does it.
func charged(t *rapid.T, s *State, l driver.Limit, now int64, by int) event {
	n := rapid.IntRange(-2*l.Max(), 3*l.Max()).Draw(t, "charge")
	before := clone(t, *s)
	out, changed := s.Charge(l, now, n)
	peek, _ := s.Take(l, now, driver.Ask{})
	if want := (driver.Charged{Remaining: peek.Remaining, RetryAfter: peek.RetryAfter, ResetAfter: peek.ResetAfter}); out != want {
		t.Fatalf("%v: charged %d: %+v, want what a peek sees: %+v", l, n, out, want)
	}
	if was, _ := before.Take(l, now, driver.Ask{}); !changed && was != peek {
		t.Fatalf("%v: charged %d: unchanged, and yet %+v has become %+v", l, n, was, peek)
	}
	return event{use{now, int64(n)}, by, true}
}

// byTime sorts events by time, and those of one time as they were decided.
func byTime(all []event) {
	slices.SortFunc(all, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
}

// TestChargedBucketKeepsItsBound: permits that are granted, with those that were charged before and less those
// that were given back, are never above Burst + Rate·W/Per in any time W.
func TestChargedBucketKeepsItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := driver.Limit{ // of a period in which no debt comes to its bound
			Rate: rapid.IntRange(1, 20).Draw(t, "rate"), Per: min(genPer(t), time.Hour),
			Burst: rapid.IntRange(1, 12).Draw(t, "burst"), Algorithm: driver.TokenBucket,
		}
		l, err := l.Normal()
		if err != nil {
			t.Skip(err)
		}
		now := int64(t0)
		one := l.Per / time.Duration(l.Rate)
		var s State
		var all []event
		reserved := map[string]event{}
		var wait time.Duration
		for i := range rapid.IntRange(1, 120).Draw(t, "calls") {
			now += genStep(t, one*3, wait)
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				all = append(all, charged(t, &s, l, now, i))
				continue
			case 2:
				id := fmt.Sprint("id", rapid.IntRange(0, i).Draw(t, "which"))
				if s.Refund(l, now, id, l.Burst) {
					delete(reserved, id)
				}
				continue
			}
			id, n := fmt.Sprint("id", i), rapid.IntRange(0, l.Burst).Draw(t, "n")
			a := driver.Ask{ID: id, N: n, Min: rapid.IntRange(0, n).Draw(t, "min")}
			if rapid.Bool().Draw(t, "ahead") {
				a.MaxDelay = time.Duration(rapid.Int64Range(0, int64(one)*20).Draw(t, "delay"))
			}
			out, _ := s.Take(l, now, a)
			wait = out.RetryAfter
			if out.N > 0 {
				reserved[id] = event{use: use{now + us(out.Delay), int64(out.N)}, by: i}
			}
			checkHonest(t, s, l, now, a, out)
		}
		for _, e := range reserved {
			all = append(all, e)
		}
		byTime(all)
		for i, e := range all {
			if !e.charge {
				if err := chargedBound(l, all[:i+1]); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// chargedBound judges the last of events, a grant. Charges that were made after it was granted do not count.
func chargedBound(l driver.Limit, events []event) error {
	last := events[len(events)-1]
	rate, unit := l.Refill()
	level, at := int64(0), int64(0)
	for _, e := range events {
		if e.charge && e.n > 0 && e.by > last.by {
			continue
		}
		level = max(drain(level, rate, e.at-at)+e.n*unit, 0)
		at = e.at
	}
	if level >= int64(l.Burst)*unit+rate {
		return fmt.Errorf("%v: bound broken at %d by %d of %d credits", l, at, level-int64(l.Burst)*unit, unit)
	}
	return nil
}

// TestChargedWindowKeepsItsBound: the same of windows, for each period that ends with a grant.
func TestChargedWindowKeepsItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := driver.Limit{Rate: rapid.IntRange(1, 50).Draw(t, "rate"), Per: genPer(t)}
		l.Algorithm = rapid.SampledFrom([]driver.Algorithm{driver.SlidingWindow, driver.FixedWindow}).Draw(t, "algorithm")
		now, per := int64(t0), l.Per.Microseconds()
		var s State
		var all []event
		var wait time.Duration
		for i := range rapid.IntRange(1, 150).Draw(t, "calls") {
			now += genStep(t, l.Per, wait)
			if rapid.IntRange(0, 2).Draw(t, "what") == 0 {
				all = append(all, charged(t, &s, l, now, i))
				continue
			}
			n := rapid.IntRange(0, l.Rate).Draw(t, "n")
			a := driver.Ask{N: n, Min: rapid.IntRange(0, n).Draw(t, "min")}
			out, _ := s.Take(l, now, a)
			wait = out.RetryAfter
			checkHonest(t, s, l, now, a, out)
			if out.N == 0 {
				continue
			}
			all = append(all, event{use: use{now, int64(out.N)}, by: i})
			sum := int64(0)
			for _, e := range all {
				if l.Algorithm == driver.FixedWindow && e.at/per == now/per || l.Algorithm == driver.SlidingWindow && e.at > now-per {
					sum += e.n
				}
			}
			if sum > int64(l.Rate) {
				t.Fatalf("%v: %d permits in the period before %d", l, sum, now)
			}
		}
	})
}

// TestChargeIsTakenBack: what is given back at once leaves no trace, whatever was granted and reserved before.
func TestChargeIsTakenBack(t *testing.T) {
	all := []driver.Limit{parse(t, "7/1s burst=5"), parse(t, "7/1s"), parse(t, "7/1s fixed-window")}
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom(all).Draw(t, "limit")
		var s State
		now := int64(t0)
		for i := range rapid.IntRange(0, 20).Draw(t, "calls") {
			now += rapid.Int64Range(0, 300_000).Draw(t, "step")
			s.Take(l, now, driver.Ask{ID: fmt.Sprint(i), Min: 1, N: 2, MaxDelay: aheadFor(l)})
		}
		before, _ := s.Take(l, now, driver.Ask{})
		n := rapid.IntRange(1, 1000).Draw(t, "n")
		s.Charge(l, now, n)
		s.Charge(l, now, -n)
		if after, _ := s.Take(l, now, driver.Ask{}); after != before {
			t.Fatalf("%v: %d charged and given back: %+v, before that %+v", l, n, after, before)
		}
	})
}

// TestChargeAmongBursts: a debt beyond the burst of the limit that is charged is one of every burst of its rate, and
// a refund of something else leaves it.
func TestChargeAmongBursts(t *testing.T) {
	small, middle, large := parse(t, "10/1s burst=1"), parse(t, "10/1s burst=10"), parse(t, "10/1s burst=50")
	retry := func(s *State, l driver.Limit) time.Duration {
		out, _ := s.Charge(l, t0, 0)
		return out.RetryAfter
	}
	t.Run("charged", func(t *testing.T) {
		var s State
		s.Charge(middle, t0, 110) // 100 beyond the burst
		for _, tt := range []struct {
			limit driver.Limit
			want  time.Duration
		}{{small, 10100 * time.Millisecond}, {middle, 10100 * time.Millisecond}, {large, 6100 * time.Millisecond}} {
			if got := retry(&s, tt.limit); got != tt.want {
				t.Errorf("%v: a permit in %v, want %v", tt.limit, got, tt.want)
			}
		}
	})
	t.Run("charged within a larger burst", func(t *testing.T) {
		var s State
		s.Charge(large, t0, 40)
		if got := retry(&s, middle); got != 100*time.Millisecond {
			t.Errorf("%v: a permit in %v, want 100ms: it sees no more than its burst", middle, got)
		}
		if got := retry(&s, large); got != 0 {
			t.Errorf("%v: a permit in %v, want one now", large, got)
		}
	})
	for name, charge := range map[string]func(s *State, reserve func()){
		"refund of what was reserved before": func(s *State, reserve func()) { reserve(); s.Charge(middle, t0, 100) },
		"refund of what was reserved after":  func(s *State, reserve func()) { s.Charge(middle, t0, 100); reserve() },
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			s.Take(middle, t0, driver.Ask{Min: 10, N: 10})
			charge(&s, func() {
				if out, _ := s.Take(middle, t0, driver.Ask{ID: "r", Min: 5, N: 5, MaxDelay: time.Hour}); out.N != 5 {
					t.Fatalf("%+v", out)
				}
			})
			if !s.Refund(middle, t0, "r", 5) {
				t.Fatal("the reservation was not taken back")
			}
			if got := retry(&s, middle); got != 10100*time.Millisecond {
				t.Errorf("a permit in %v, want 10.1s: the debt of the charge stays", got)
			}
			if got := retry(&s, small); got < 10100*time.Millisecond {
				t.Errorf("%v: a permit in %v, want 10.1s at least", small, got)
			}
		})
	}
	t.Run("given back", func(t *testing.T) {
		var s State
		s.Charge(middle, t0, 110)
		s.Charge(middle, t0, -100)
		for _, l := range []driver.Limit{small, middle} {
			if got := retry(&s, l); got != 100*time.Millisecond {
				t.Errorf("%v: a permit in %v, want 100ms", l, got)
			}
		}
	})
}

// TestGivenBackWhileReserved: of what is given back while reservations are outstanding, a burst at most is withheld
// when they are gone.
func TestGivenBackWhileReserved(t *testing.T) {
	l := parse(t, "10/1s burst=10")
	var s State
	s.Charge(l, t0, 1000)
	if out, _ := s.Take(l, t0, driver.Ask{ID: "r", Min: 1, N: 1, MaxDelay: time.Hour}); out.N != 1 {
		t.Fatalf("reserved: %+v", out)
	}
	s.Charge(l, t0, -1000)
	s.Refund(l, t0, "r", 1)
	if out, _ := s.Take(l, t0, driver.Ask{}); out.ResetAfter > time.Second {
		t.Errorf("%+v after all is given back, want no debt beyond the burst", out)
	}
}

// TestGivenBackIsNotRefunded: a window that is empty again has nothing to refund, as one that the store has dropped.
func TestGivenBackIsNotRefunded(t *testing.T) {
	l := parse(t, "10/1s")
	var s State
	s.Take(l, t0, driver.Ask{Min: 3, N: 3})
	s.Take(l, t0+500_000, driver.Ask{ID: "a", Min: 5, N: 5})
	s.Charge(l, t0+500_000, -5)
	s.Take(l, t0+1_100_000, driver.Ask{Min: 2, N: 2})
	if s.Refund(l, t0+1_100_000, "a", 5) {
		t.Error("permits that a charge had given back were refunded")
	}
}

// TestGivenBackUnderReservations: those who have reserved rely on the debt, and nobody comes beside them.
func TestGivenBackUnderReservations(t *testing.T) {
	l := parse(t, "1/1s burst=1")
	var s State
	s.Take(l, t0, driver.Ask{Min: 1, N: 1})
	for i := range 2 {
		s.Take(l, t0, driver.Ask{ID: fmt.Sprint(i), Min: 1, N: 1, MaxDelay: time.Hour})
	}
	s.Charge(l, t0, -1)
	out, _ := s.Take(l, t0, driver.Ask{Min: 1, N: 1, MaxDelay: time.Hour})
	if out.Delay != 3*time.Second {
		t.Errorf("due in %v, beside a reservation: want 3s", out.Delay)
	}
}

// TestLargeCharges: a debt is bounded, and every number of it is stored and read again.
func TestLargeCharges(t *testing.T) {
	for _, limit := range []string{
		"1/8784h", "1/8784h burst=142", "1/1ms burst=1", "3000000/1h burst=3", "7/1s fixed-window", "1000000000000/1ms burst=1000000000000",
		"999999999999/1ms", "1000000000/24h burst=5", "1000000000000/8784h",
	} {
		t.Run(limit, func(t *testing.T) {
			l := parse(t, limit)
			var s State
			for i := range 300 {
				out, _ := s.Charge(l, t0+int64(i), driver.MaxCharge)
				var again State
				if b, err := s.MarshalBinary(); err != nil || again.UnmarshalBinary(b) != nil {
					t.Fatal("the state does not survive being stored")
				}
				whole := time.Duration(float64(l.Max()) / float64(l.Rate) * float64(l.Per))
				if out.Remaining != 0 && l.Rate < driver.MaxRate-1 || out.RetryAfter < 0 || out.RetryAfter > driver.MaxPer+whole+2*l.Per {
					t.Fatalf("charge %d: %+v", i, out)
				}
				s = again
			}
			if denied, _ := s.Take(l, t0+300, driver.Ask{Min: 1, N: 1}); denied.N != 0 && l.Rate < driver.MaxRate-1 {
				t.Errorf("granted %d in debt", denied.N)
			}
			for range 300 {
				s.Charge(l, t0+300, -driver.MaxCharge)
			}
			if out, _ := s.Take(l, t0+300, driver.Ask{}); out.Remaining != l.Max() {
				t.Errorf("%d of %d remain when all is given back", out.Remaining, l.Max())
			}
		})
	}
}

func TestCheckCharge(t *testing.T) {
	for n, want := range map[int]error{
		0: nil, -1: nil, driver.MaxCharge: nil, -driver.MaxCharge: nil,
		driver.MaxCharge + 1: driver.ErrInvalid, -driver.MaxCharge - 1: driver.ErrInvalid, math.MinInt: driver.ErrInvalid,
	} {
		if err := CheckCharge(n); !errors.Is(err, want) {
			t.Errorf("%d: %v, want %v", n, err, want)
		}
	}
}
