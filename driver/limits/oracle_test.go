package limits

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coordgo/coord/driver"
)

// use is permits spent at a time.
type use struct{ at, n int64 }

// worstWindow checks that no period of length per, wherever it begins, holds
// more than most permits. uses is sorted by time.
func worstWindow(uses []use, per, most int64) error {
	sum, from := int64(0), 0
	for _, u := range uses {
		sum += u.n
		for uses[from].at <= u.at-per {
			sum -= uses[from].n
			from++
		}
		if sum > most {
			return fmt.Errorf("%d permits in the period before %d: want at most %d", sum, u.at, most)
		}
	}
	return nil
}

// bucketBound checks Burst + Rate·W/Per for every W: a bucket that the uses
// themselves drain never runs dry, but for the one microsecond to which the
// moment of a reservation is rounded. uses is sorted by time.
func bucketBound(l driver.Limit, uses []use) error {
	rate, unit := l.Refill()
	level, at := int64(0), int64(0)
	for _, u := range uses {
		level = drain(level, rate, u.at-at) + u.n*unit
		at = u.at
		if level >= int64(l.Burst)*unit+rate {
			return fmt.Errorf("bound broken at %d by %d of %d credits", at, level-int64(l.Burst)*unit, unit)
		}
	}
	return nil
}

func genPer(t *rapid.T) time.Duration {
	return time.Duration(rapid.OneOf(
		rapid.Int64Range(1000, 5000),
		rapid.SampledFrom([]int64{1_000_000, 3_000_000, 60_000_000, 3_600_000_000, 86_400_000_000}),
		rapid.Int64Range(1000, driver.MaxPer.Microseconds()),
	).Draw(t, "per")) * time.Microsecond
}

// genStep draws a time step that is interesting for a period.
func genStep(t *rapid.T, per time.Duration, wait time.Duration) int64 {
	p := per.Microseconds()
	return rapid.OneOf(
		rapid.Just(int64(0)),
		rapid.Int64Range(0, p/50+1),
		rapid.Int64Range(0, p*2),
		rapid.Just(wait.Microseconds()),
		rapid.Just(max(wait.Microseconds()-1, 0)),
	).Draw(t, "step")
}

// TestWindowsNeverExceedTheirBound drives both window algorithms at random and
// measures every trailing window of what they granted.
func TestWindowsNeverExceedTheirBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := driver.Limit{Rate: rapid.IntRange(1, 50).Draw(t, "rate"), Per: genPer(t)}
		l.Algorithm = rapid.SampledFrom([]driver.Algorithm{driver.SlidingWindow, driver.FixedWindow}).Draw(t, "algorithm")
		now, per := int64(t0), l.Per.Microseconds()
		var s State
		var uses []use
		var wait time.Duration
		for range rapid.IntRange(1, 150).Draw(t, "calls") {
			now += genStep(t, l.Per, wait)
			n := rapid.IntRange(0, l.Rate).Draw(t, "n")
			a := driver.Ask{N: n, Min: rapid.IntRange(0, n).Draw(t, "min")}
			out, _ := s.Take(l, now, a)
			wait = out.RetryAfter
			if out.N > 0 {
				uses = append(uses, use{now, int64(out.N)})
			}
			checkHonest(t, s, l, now, a, out)
			if l.Algorithm == driver.FixedWindow {
				var inWindow int64
				for _, u := range uses {
					if u.at/per == now/per {
						inWindow += u.n
					}
				}
				if inWindow > int64(l.Rate) || out.Remaining != l.Rate-int(inWindow) {
					t.Fatalf("%d permits in the window, %d remaining, of %d", inWindow, out.Remaining, l.Rate)
				}
			} else if err := worstWindow(uses, per, int64(l.Rate)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// checkHonest proves RetryAfter and ResetAfter of an answer to the microsecond,
// for a caller that is alone from then on.
func checkHonest(t *rapid.T, s State, l driver.Limit, now int64, a driver.Ask, out driver.TakenOne) {
	peek := func(at int64, a driver.Ask) driver.TakenOne {
		c := clone(t, s)
		out, _ := c.Take(l, at, a)
		return out
	}
	if out.N == 0 && out.RetryAfter > 0 {
		again := driver.Ask{Min: max(a.Min, 1), N: max(a.Min, 1), MaxDelay: a.MaxDelay}
		if r := peek(now+us(out.RetryAfter), again); r.N == 0 {
			t.Fatalf("%v: denied after its retry-after %v: %+v", l, out.RetryAfter, r)
		}
		if r := peek(now+us(out.RetryAfter)-1, again); r.N != 0 {
			t.Fatalf("%v: admitted 1 µs before its retry-after %v", l, out.RetryAfter)
		}
	}
	if out.N == 0 && a.N > 0 && out.RetryAfter == 0 {
		t.Fatalf("denied without a retry-after: %+v", out)
	}
	if r := peek(now+us(out.ResetAfter), driver.Ask{}); r.Remaining != l.Max() {
		t.Fatalf("%d of %d remaining after the reset-after %v", r.Remaining, l.Max(), out.ResetAfter)
	}
	if got := s.Expiry(l, now); got != out.ResetAfter {
		t.Fatalf("expiry %v, reset-after %v", got, out.ResetAfter)
	}
	if l.Max() > 1 || out.ResetAfter == 0 {
		return
	}
	if r := peek(now+us(out.ResetAfter)-1, driver.Ask{}); r.Remaining == l.Max() {
		t.Fatalf("full 1 µs before the reset-after %v", out.ResetAfter)
	}
}

// clone copies through the stored form.
func clone(t *rapid.T, s State) State {
	b, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var c State
	if err := c.UnmarshalBinary(b); err != nil {
		t.Fatalf("%v, stored as %x", err, b)
	}
	return c
}

// TestBucketNeverExceedsItsBound drives token buckets at random, with
// reservations that are spent when they fall due or given back before, and
// measures Burst + Rate·W/Per over every W. Permits without delay are spent as
// late as ValidFor allows.
func TestBucketNeverExceedsItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := driver.Limit{
			Rate: rapid.IntRange(1, 20).Draw(t, "rate"), Per: genPer(t),
			Burst: rapid.IntRange(1, 12).Draw(t, "burst"), Algorithm: driver.TokenBucket,
		}
		l, err := l.Normal()
		if err != nil {
			t.Skip(err)
		}
		now := int64(t0)
		one := l.Per / time.Duration(l.Rate)
		var s State
		uses := map[string]use{}
		granted := map[string]int{}
		var wait time.Duration
		for i := range rapid.IntRange(1, 120).Draw(t, "calls") {
			now += genStep(t, one*3, wait)
			id := fmt.Sprint("id", i)
			if rapid.IntRange(0, 3).Draw(t, "refund") == 0 && i > 0 {
				id = fmt.Sprint("id", rapid.IntRange(0, i-1).Draw(t, "which"))
				n := rapid.IntRange(1, l.Burst).Draw(t, "n")
				u := uses[id]
				changed := s.Refund(l, now, id, n)
				if due := u.at > now && granted[id] > 0; changed && !due {
					t.Fatalf("refunded %s, which was due", id)
				} else if !changed && due {
					t.Fatalf("did not refund %s", id)
				} else if changed {
					n = min(n, granted[id])
					granted[id] = 0 // once only
					if u.n -= int64(n); u.n == 0 {
						delete(uses, id)
					} else {
						uses[id] = u
					}
				}
				if s.Refund(l, now, id, n) {
					t.Fatal("refunded twice")
				}
				continue
			}
			n := rapid.IntRange(0, l.Burst).Draw(t, "n")
			a := driver.Ask{ID: id, N: n, Min: rapid.IntRange(0, n).Draw(t, "min")}
			if rapid.Bool().Draw(t, "ahead") {
				a.MaxDelay = time.Duration(rapid.Int64Range(0, int64(one)*20).Draw(t, "delay"))
			}
			out, _ := s.Take(l, now, a)
			wait = out.RetryAfter
			if out.N > 0 {
				if out.Delay > a.MaxDelay || out.Delay > out.ValidFor {
					t.Fatalf("delay %v, at most %v, valid for %v", out.Delay, a.MaxDelay, out.ValidFor)
				}
				at := now + us(out.Delay)
				if out.Delay > 0 {
					granted[id] = out.N
				} else if rapid.IntRange(0, 4).Draw(t, "late") == 0 {
					at = now + us(out.ValidFor)
				}
				uses[id] = use{at, int64(out.N)}
			}
			checkHonest(t, s, l, now, a, out)
		}
		var all []use
		for _, u := range uses {
			all = append(all, u)
		}
		slices.SortFunc(all, func(a, b use) int { return int(a.at - b.at) })
		if err := bucketBound(l, all); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRefundFreesEverythingInTheEnd: whatever order reservations are cancelled
// in, once none is outstanding nothing of them is held back beyond one burst,
// and cancelled in the order last to first each gives back all it took.
func TestRefundFreesEverythingInTheEnd(t *testing.T) {
	l := parse(t, "1/1s burst=1")
	const n = 100
	for name, order := range map[string]func(i int) int{
		"first to last": func(i int) int { return i },
		"last to first": func(i int) int { return n - 1 - i },
		"shuffled":      func(i int) int { return i * 37 % n },
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			s.Take(l, t0, driver.Ask{Min: 1, N: 1})
			for i := range n {
				out, _ := s.Take(l, t0, driver.Ask{ID: fmt.Sprint(i), Min: 1, N: 1, MaxDelay: time.Hour})
				if want := time.Duration(i+1) * time.Second; out.Delay != want {
					t.Fatalf("reservation %d due in %v, want %v", i, out.Delay, want)
				}
			}
			for i := range n {
				if !s.Refund(l, t0, fmt.Sprint(order(i)), 1) {
					t.Fatalf("reservation %d was not taken back", order(i))
				}
			}
			if out, _ := s.Take(l, t0, driver.Ask{}); out.ResetAfter != time.Second {
				t.Errorf("full after %v, want 1s: the one permit that was spent", out.ResetAfter)
			}
		})
	}
}

// TestNoDrift grants 1e6 permits, each as soon as the bucket has it, and checks
// the time they took to the microsecond. Days and
// years are repeated until the clock would leave the exact integers.
func TestNoDrift(t *testing.T) {
	for _, limit := range []string{"7/1s burst=2", "3/1m burst=2", "1/24h burst=2", "3000000/1h burst=2", "1000000000/24h burst=2", "999983/8783h59m burst=3"} {
		t.Run(limit, func(t *testing.T) {
			l := parse(t, limit)
			rate, unit := l.Refill()
			grants := int(min(1_000_000, (maxExact-t0)/(unit/rate+1)))
			var s State
			var took int64
			for n := 0; n < grants+l.Burst; {
				out, _ := s.Take(l, t0+took, driver.Ask{Min: 1, N: 1})
				n += out.N
				took += us(out.RetryAfter)
			}
			hi, lo := bits.Mul64(uint64(grants), uint64(unit))
			want, rest := bits.Div64(hi, lo, uint64(rate))
			if rest > 0 {
				want++
			}
			if took != int64(want) {
				t.Errorf("%d grants took %d µs, want %d", grants, took, want)
			}
		})
	}
}

// TestAtMostLosesNothing polls at odd intervals for whatever is there: the sum
// of the grants is what refilled, to the last whole permit.
func TestAtMostLosesNothing(t *testing.T) {
	l := parse(t, "27/5s burst=27")
	var s State
	total, now := 0, int64(t0)
	for range 100_000 {
		out, _ := s.Take(l, now, driver.Ask{Min: 1, N: 27})
		total += out.N
		now += 17_317
	}
	rate, unit := l.Refill()
	want := 27 + int((99_999*17_317*rate)/unit)
	if total != want {
		t.Errorf("granted %d, want %d", total, want)
	}
}

// TestEdges runs the largest and smallest limits there are through bursts,
// denials and reservations, and checks every number that is kept.
func TestEdges(t *testing.T) {
	exact := func(s *State) error {
		if s.debt < 0 || s.debt > maxExact || s.sum < 0 || s.sum > maxExact || s.due > maxExact {
			return fmt.Errorf("out of range: debt %d, sum %d, due %d", s.debt, s.sum, s.due)
		}
		return nil
	}
	for _, l := range []driver.Limit{
		{Rate: driver.MaxRate, Per: driver.MaxPer},
		{Rate: driver.MaxRate, Per: driver.MinPer},
		{Rate: driver.MaxRate, Per: driver.MinPer, Burst: driver.MaxRate},
		{Rate: driver.MaxRate, Per: driver.MaxPer, Algorithm: driver.FixedWindow},
		{Rate: driver.MaxRate - 11, Per: driver.MaxPer - time.Microsecond, Burst: 142},
		{Rate: 1, Per: driver.MaxPer},
		{Rate: 1, Per: driver.MaxPer, Burst: 142},
		{Rate: 1, Per: driver.MinPer, Burst: 1},
		{Rate: 3_000_000, Per: time.Hour},
		{Rate: 1_000_000_000, Per: 24 * time.Hour},
		{Rate: 1_000_000_000, Per: 24 * time.Hour, Burst: 1_000_000_000},
	} {
		t.Run(l.String(), func(t *testing.T) {
			l := normal(t, l)
			var s State
			ask := driver.Ask{Min: 1, N: l.Max()}
			out, _ := s.Take(l, t0, ask)
			if out.N != l.Max() || out.Remaining != 0 {
				t.Fatalf("granted %d of %d, %d remaining", out.N, l.Max(), out.Remaining)
			}
			if l.Algorithm == driver.TokenBucket {
				ask.MaxDelay = 1<<63 - 1
				for i := range 2000 {
					ask.ID = fmt.Sprint(i)
					s.Take(l, t0, ask)
					if err := exact(&s); err != nil {
						t.Fatal(err)
					}
				}
				var again State
				if b, err := s.MarshalBinary(); err != nil || again.UnmarshalBinary(b) != nil {
					t.Fatal("the state does not survive being stored")
				}
				if got := s.records.len(); got > maxRecords {
					t.Errorf("%d records", got)
				}
			}
			ask = driver.Ask{Min: 1, N: 1}
			now := int64(t0)
			for range 300 {
				out, _ := s.Take(l, now, ask)
				now += us(out.RetryAfter)
				if out.N == 0 && out.RetryAfter <= 0 {
					t.Fatalf("%+v", out)
				}
				if err := exact(&s); err != nil {
					t.Fatal(err)
				}
				if now > maxExact {
					break // the reservations reach to the end of exact time
				}
			}
		})
	}
}

// TestMixedBursts: what a smaller burst is granted lowers no debt of a larger one, and
// reservations that are given back by it do not either.
func TestMixedBursts(t *testing.T) {
	wide, narrow := parse(t, "10/1s burst=100"), parse(t, "10/1s burst=5")
	for name, ask := range map[string]driver.Ask{
		"takes":        {Min: 1, N: 1},
		"reservations": {ID: "r", Min: 1, N: 1, MaxDelay: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			total, small := 0, 0
			for at := range int64(500) {
				now := t0 + at*10_000
				out, _ := s.Take(wide, now, driver.Ask{Min: 1, N: 100})
				total += out.N
				out, _ = s.Take(narrow, now, ask)
				if out.Delay > 0 {
					s.Refund(narrow, now, "r", 1)
					out.N = 0
				}
				small += out.N
			}
			if total+small > 150 || small > 55 {
				t.Errorf("granted %d and %d in 5 s, want at most 150 in all and 55 by the smaller burst", total, small)
			}
			if total+small < 149 {
				t.Errorf("granted %d and %d in 5 s, want 150 in all", total, small)
			}
		})
	}
}

// TestRefundAmongBursts: what is given back of a smaller burst frees no more of a larger one than that. A
// walk against internal/limitmodel found both.
func TestRefundAmongBursts(t *testing.T) {
	wide, narrow := parse(t, "1/1s burst=27"), parse(t, "1/1s burst=11")
	at := func(sec int64) int64 { return t0 + sec*1_000_000 }
	setUp := func(t *testing.T) (s State) {
		t.Helper()
		for _, step := range []struct {
			limit driver.Limit
			sec   int64
			ask   driver.Ask
			delay time.Duration
		}{
			{wide, 0, driver.Ask{Min: 20, N: 20}, 0},
			{narrow, 1, driver.Ask{Min: 1, N: 1}, 0}, // which sees 11 of the 20 that are owed
			{narrow, 3, driver.Ask{ID: "spent", Min: 6, N: 6, MaxDelay: time.Minute}, 4 * time.Second},
			{narrow, 5, driver.Ask{ID: "back", Min: 2, N: 2, MaxDelay: time.Minute}, 4 * time.Second},
		} {
			if out, _ := s.Take(step.limit, at(step.sec), step.ask); out.N != step.ask.N || out.Delay != step.delay {
				t.Fatalf("at %d s: %+v, want a delay of %v", step.sec, out, step.delay)
			}
		}
		return s
	}
	t.Run("what was spent stays", func(t *testing.T) {
		s := setUp(t)
		s.Refund(narrow, at(8), "back", 2)
		if out, _ := s.Take(wide, at(8), driver.Ask{}); out.Remaining != 8 {
			t.Errorf("%d remain of 27, where 20+1+6 were taken and 8 s have passed: want 8", out.Remaining)
		}
	})
	t.Run("what is spent late does not rely on it", func(t *testing.T) {
		s := setUp(t)
		if out, _ := s.Take(wide, at(8), driver.Ask{Min: 1, N: 1}); out.N != 1 || out.ValidFor != 0 {
			t.Errorf("%+v: want a permit that is to be spent at once, since the debt may be given back", out)
		}
	})
}

// TestChangedLimit: a changed burst keeps the debt, and sees of it what it can. Another
// rate starts again, as another period does.
func TestChangedLimit(t *testing.T) {
	peek := func(s *State, limit string, at time.Duration) driver.TakenOne {
		out, _ := s.Take(parse(t, limit), t0+us(at), driver.Ask{})
		return out
	}
	take := func(s *State, limit string, n int) {
		t.Helper()
		if out, _ := s.Take(parse(t, limit), t0, driver.Ask{Min: n, N: n}); out.N != n {
			t.Fatalf("%+v", out)
		}
	}
	t.Run("raised burst", func(t *testing.T) {
		var s State
		take(&s, "10/1s burst=10", 10)
		if out := peek(&s, "10/1s burst=100", 0); out.Remaining != 90 || out.ResetAfter != time.Second {
			t.Errorf("%+v", out)
		}
	})
	t.Run("lowered burst", func(t *testing.T) {
		var s State
		take(&s, "10/1s burst=100", 100)
		if out := peek(&s, "10/1s burst=10", 0); out.Remaining != 0 || out.ResetAfter != time.Second {
			t.Errorf("%+v", out)
		}
		if out := peek(&s, "10/1s burst=10", time.Hour); out.Remaining != 10 {
			t.Errorf("%+v", out)
		}
	})
	t.Run("the same rate in other words", func(t *testing.T) {
		var s State
		take(&s, "10/1s burst=10", 10)
		if out := peek(&s, "600/1m burst=10", 0); out.Remaining != 0 || out.RetryAfter != 100*time.Millisecond {
			t.Errorf("%+v", out)
		}
	})
	t.Run("another rate starts anew", func(t *testing.T) {
		var s State
		take(&s, "7/1s burst=10", 10)
		if out := peek(&s, "1000/1s burst=10", 0); out.Remaining != 10 || out.ResetAfter != 0 {
			t.Errorf("%+v", out)
		}
		if a, b := Name(parse(t, "7/1s burst=10")), Name(parse(t, "1000/1s burst=10")); a == b {
			t.Errorf("both are %s", a)
		}
	})
	t.Run("lowered burst under reservations", func(t *testing.T) {
		var s State
		l := parse(t, "10/1s burst=100")
		take(&s, "10/1s burst=100", 100)
		out, _ := s.Take(l, t0, driver.Ask{ID: "r", Min: 10, N: 10, MaxDelay: time.Second})
		if out.Delay != time.Second {
			t.Fatalf("%+v", out)
		}
		// The reservation stays due in 1 s; what comes after it queues behind.
		l = parse(t, "10/1s burst=10")
		out, _ = s.Take(l, t0, driver.Ask{Min: 1, N: 1, MaxDelay: time.Hour})
		if out.Delay != 1100*time.Millisecond {
			t.Errorf("%+v", out)
		}
	})
	t.Run("lowered window", func(t *testing.T) {
		var s State
		take(&s, "100/1s", 100)
		if out := peek(&s, "10/1s", 0); out.Remaining != 0 || out.RetryAfter == 0 {
			t.Errorf("%+v", out)
		}
		if out := peek(&s, "10/1s", 2*time.Second); out.Remaining != 10 {
			t.Errorf("%+v", out)
		}
	})
	t.Run("another period starts anew", func(t *testing.T) {
		var s State
		take(&s, "10/1s", 10)
		take(&s, "10/1m", 10)
		take(&s, "10/1m burst=3", 3)
	})
}

func TestWindowRefund(t *testing.T) {
	for _, limit := range []string{"10/1s", "10/1s fixed-window"} {
		t.Run(limit, func(t *testing.T) {
			l := parse(t, limit)
			const at = t0 - t0%1_000_000
			var s State
			s.Take(l, at, driver.Ask{ID: "a", Min: 6, N: 6})
			s.Take(l, at+500_000, driver.Ask{ID: "b", Min: 4, N: 4})
			remaining := func(now int64) int { out, _ := s.Take(l, now, driver.Ask{}); return out.Remaining }
			for i, tt := range []struct {
				id      string
				n       int
				changed bool
				want    int
			}{
				{"c", 1, false, 0},
				{"", 1, false, 0},
				{"a", 0, false, 0},
				{"a", -3, false, 0},
				{"b", 99, true, 4},
				{"b", 1, false, 4},
				{"a", 2, true, 6},
				{"a", 4, false, 6},
			} {
				if got := s.Refund(l, at+600_000, tt.id, tt.n); got != tt.changed {
					t.Errorf("step %d: changed = %v", i, got)
				}
				if got := remaining(at + 600_000); got != tt.want {
					t.Errorf("step %d: %d remaining, want %d", i, got, tt.want)
				}
			}
			// What has left the window is not given back.
			s = State{}
			s.Take(l, at, driver.Ask{ID: "a", Min: 6, N: 6})
			if s.Refund(l, at+2_000_000, "a", 6) || remaining(at+2_000_000) != 10 {
				t.Error("refunded what had left the window")
			}
		})
	}
}

// TestClockADayAhead: one client's clock is a day ahead for a while. All together are granted at most
// what the limit allows and once more the whole of it, and when the clock is right again,
// the others go on after the time in which the limit comes back. The store forgets a state when it may.
func TestClockADayAhead(t *testing.T) {
	const day, step, ahead, until = 86_400_000_000, 20_000, 10_000_000, 40_000_000
	for _, limit := range []string{"10/1s", "10/1s fixed-window", "10/1s burst=10"} {
		t.Run(limit, func(t *testing.T) {
			l := parse(t, limit)
			var s State
			var forget int64
			var uses []use
			after := 0
			take := func(passed, now int64) (n int) {
				if passed >= forget {
					s = State{}
				}
				out, changed := s.Take(l, now, driver.Ask{Min: 1, N: 10})
				if changed {
					forget = passed + us(s.Expiry(l, now))
					uses = append(uses, use{passed, int64(out.N)})
				} else if out.RetryAfter > 3*time.Second && now < t0+day {
					t.Fatalf("to come again in %v", out.RetryAfter)
				}
				return out.N
			}
			for passed := int64(0); passed < until; passed += step {
				if passed < ahead && passed%1_700_000 == 0 {
					take(passed, t0+passed+day)
				}
				n := take(passed, t0+passed)
				if passed >= ahead+3_000_000 {
					after += n
				}
			}
			if err := worstWindow(uses, us(l.Per), 2*int64(l.Rate+l.Burst)); err != nil {
				t.Error(err)
			}
			if least := (until - ahead - 3_000_000) / 1_000_000 * 9; after < least {
				t.Errorf("granted %d after the clock was right again, want at least %d", after, least)
			}
		})
	}
}

// TestRefundIsExact: a refund leaves the debt to the credit, though due times are rounded to the microsecond.
func TestRefundIsExact(t *testing.T) {
	l := normal(t, driver.Limit{Rate: 20, Per: 1005 * time.Microsecond, Burst: 2, Algorithm: driver.TokenBucket})
	var s State
	s.Take(l, t0, driver.Ask{Min: 1, N: 1})
	for i, n := range []int{2, 1, 1} {
		s.Take(l, t0, driver.Ask{ID: fmt.Sprint(i), Min: n, N: n, MaxDelay: time.Second})
	}
	s.Refund(l, t0, "2", 1)
	out, _ := s.Take(l, t0, driver.Ask{ID: "last", Min: 2, N: 2, MaxDelay: time.Second})
	if expiry := s.Expiry(l, t0); out.ResetAfter != expiry {
		t.Errorf("full after %v, and kept for %v: want the same", out.ResetAfter, expiry)
	}
}

// TestRefundForgetsTheOldest: of more grants than are remembered the oldest
// give nothing back, and a bucket that forgot one gives nothing back until
// that one is due.
func TestRefundForgetsTheOldest(t *testing.T) {
	l := parse(t, "10000/1s burst=1")
	var s State
	for i := range maxRecords + 10 {
		s.Take(l, t0, driver.Ask{ID: fmt.Sprint(i), Min: 1, N: 1, MaxDelay: time.Minute})
	}
	if s.records.len() != maxRecords {
		t.Fatalf("%d records", s.records.len())
	}
	if s.Refund(l, t0, "1", 1) {
		t.Error("gave back a forgotten grant")
	}
	before, _ := s.Take(l, t0, driver.Ask{})
	if !s.Refund(l, t0, "1033", 1) {
		t.Error("the newest is unknown")
	}
	if after, _ := s.Take(l, t0, driver.Ask{}); after.ResetAfter != before.ResetAfter {
		t.Errorf("freed %v although unknown reservations are outstanding", before.ResetAfter-after.ResetAfter)
	}
}

func TestValidFor(t *testing.T) {
	const at = t0 - t0%1_000_000
	for limit, want := range map[string]time.Duration{
		"10/1s":              7 * time.Millisecond,
		"10/1s fixed-window": 997 * time.Millisecond,
		"10/1s burst=10":     100 * time.Millisecond,
	} {
		var s State
		s.Take(parse(t, limit), at+3000, driver.Ask{Min: 1, N: 1})
		if out, _ := s.Take(parse(t, limit), at+3000, driver.Ask{Min: 2, N: 2}); out.ValidFor != want {
			t.Errorf("%s: valid for %v, want %v", limit, out.ValidFor, want)
		}
	}
}

func TestCheck(t *testing.T) {
	bucket, window := parse(t, "10/1s burst=5"), parse(t, "10/1s")
	for i, tt := range []struct {
		l    driver.Limit
		a    driver.Ask
		want error
	}{
		{bucket, driver.Ask{}, nil},
		{bucket, driver.Ask{Min: 5, N: 5, MaxDelay: time.Second}, nil},
		{window, driver.Ask{Min: 0, N: 10}, nil},
		{bucket, driver.Ask{N: 6}, driver.ErrInvalid},
		{window, driver.Ask{N: 11}, driver.ErrInvalid},
		{window, driver.Ask{N: -1}, driver.ErrInvalid},
		{window, driver.Ask{Min: -1}, driver.ErrInvalid},
		{window, driver.Ask{Min: 2, N: 1}, driver.ErrInvalid},
		{bucket, driver.Ask{MaxDelay: -1}, driver.ErrInvalid},
		{window, driver.Ask{N: 1, MaxDelay: 1}, driver.ErrUnsupported},
		{window, driver.Ask{ID: string(make([]byte, 129))}, driver.ErrInvalid},
	} {
		if err := Check(tt.l, tt.a); !errors.Is(err, tt.want) {
			t.Errorf("case %d: %v, want %v", i, err, tt.want)
		}
	}
}

func TestTakeDoesNotAllocate(t *testing.T) {
	for _, limit := range []string{"1000/1s", "1000/1s fixed-window", "1000/1s burst=10"} {
		l := parse(t, limit)
		var s State
		now := int64(t0)
		take := func() { now += 1234; s.Take(l, now, driver.Ask{Min: 1, N: 1}) }
		for range 5000 {
			take()
		}
		if n := testing.AllocsPerRun(5000, take); n != 0 {
			t.Errorf("%s: %v allocations", limit, n)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	for _, limit := range []string{"1000000/1s", "1000000/1s fixed-window", "1000000/1s burst=1000"} {
		b.Run(limit, func(b *testing.B) {
			l := parse(b, limit)
			var s State
			now := int64(t0)
			b.ReportAllocs()
			for b.Loop() {
				now += 2
				s.Take(l, now, driver.Ask{Min: 1, N: 1})
			}
		})
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, limit := range []string{"10/1s", "10/1s fixed-window", "10/1s burst=5"} {
		l := parse(f, limit)
		var s State
		for i := range 20 {
			s.Take(l, t0+int64(i)*31_000, driver.Ask{ID: fmt.Sprint(i), Min: 1, N: 2, MaxDelay: aheadFor(l)})
		}
		b, err := s.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		s.Charge(l, t0+600_000, 1000)
		if b, err = s.MarshalBinary(); err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{})
	f.Add([]byte{1, 0})
	f.Add([]byte{2, 0})
	f.Add([]byte{3, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		var s State
		if err := s.UnmarshalBinary(data); err != nil {
			if !errors.Is(err, driver.ErrCorrupt) {
				t.Fatalf("%v is not ErrCorrupt", err)
			}
			return
		}
		b, err := s.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var again State
		if err := again.UnmarshalBinary(b); err != nil {
			t.Fatalf("%v after a round trip", err)
		}
		// Whatever was read can be counted with.
		for _, limit := range []string{"10/1s", "10/1s fixed-window", "10/1s burst=5"} {
			l := parse(t, limit)
			c := again
			out, _ := c.Take(l, t0, driver.Ask{ID: "x", Min: 1, N: 3, MaxDelay: aheadFor(l)})
			if out.N > 3 || out.Remaining < 0 || out.RetryAfter < 0 || out.Delay < 0 {
				t.Fatalf("%+v", out)
			}
			c.Refund(l, t0, "x", 3)
			for _, n := range []int{3, -2, driver.MaxCharge, -driver.MaxCharge} {
				if out, _ := c.Charge(l, t0, n); out.Remaining < 0 || out.RetryAfter < 0 || out.ResetAfter < 0 {
					t.Fatalf("charged %d: %+v", n, out)
				}
			}
			c.Expiry(l, t0)
		}
	})
}

// aheadFor is a MaxDelay where l allows one.
func aheadFor(l driver.Limit) time.Duration {
	if l.Algorithm == driver.TokenBucket {
		return time.Minute
	}
	return 0
}
