package limits

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coordgo/coord/driver"
)

// gated is a State behind a gate, as a store keeps it.
type gated struct {
	state State
	gate  *Gate
	quick int // answers of the gate
}

// use gives the State to one user, and opens the gate again, for asks of l.
func (g *gated) use(l driver.Limit, now int64, fn func(*State)) {
	if g.gate != nil {
		g.gate.Shut(&g.state, now)
	}
	fn(&g.state)
	if g.gate == nil || !g.gate.Serves(&l) || g.gate.Spent(now) {
		g.gate = new(Gate)
		g.gate.Init(l, now)
	}
	g.gate.Open(&g.state, now)
}

func (g *gated) take(l driver.Limit, now int64, a driver.Ask) (q driver.Quick) {
	if g.gate != nil && g.gate.Serves(&l) && a.ID == "" && a.MaxDelay == 0 {
		var ok bool
		if q, ok = g.gate.Take(g.gate.Word(), now, a.Min, a.N); ok {
			g.quick++
			return q
		}
	}
	g.use(l, now, func(s *State) {
		one, _ := s.Take(l, now, a)
		q = driver.Quick{N: one.N, Remaining: one.Remaining, RetryAfter: one.RetryAfter, ResetAfter: one.ResetAfter}
	})
	return q
}

// alike makes the time of a bucket's last grant the same in both, if they owe the same: a gate
// does not know it exactly.
func (g *gated) alike(t *rapid.T, s *State, l driver.Limit, now int64) {
	if l.Algorithm != driver.TokenBucket || s.kind != bucketed {
		return
	}
	g.gate.Shut(&g.state, now)
	if a, b := drain(s.debt, s.rate, now-s.last), drain(g.state.debt, g.state.rate, now-g.state.last); a != b {
		t.Fatalf("the debt is %d with a gate, %d without", b, a)
	}
	if d := g.state.last - s.last; d < 0 || d > gateOpen {
		t.Fatalf("the last grant is put %dµs too late", d)
	}
	g.state.last, g.state.debt = s.last, s.debt
}

// A State behind a gate answers every ask as one without does.
func TestGateAnswersAsTheState(t *testing.T) {
	quick := 0
	rapid.Check(t, func(t *rapid.T) {
		per := genPer(t)
		l := driver.Limit{Rate: rapid.IntRange(1, 200).Draw(t, "rate"), Per: per}
		l.Algorithm = rapid.SampledFrom([]driver.Algorithm{driver.SlidingWindow, driver.FixedWindow, driver.TokenBucket}).Draw(t, "algorithm")
		if l.Algorithm == driver.TokenBucket {
			l.Burst = rapid.IntRange(1, 200).Draw(t, "burst")
		}
		var plain State
		var g gated
		now, id := rapid.Int64Range(0, 1<<50).Draw(t, "now"), 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, per.Microseconds()/50), rapid.Int64Range(0, 2*per.Microseconds())).Draw(t, "pause")
			var a driver.Ask
			switch rapid.IntRange(0, 20).Draw(t, "kind") {
			case 0: // another limit on the same state
				g.use(l, now, func(*State) {})
				g.alike(t, &plain, l, now)
				l.Rate = rapid.IntRange(1, 200).Draw(t, "rate")
				if l.Burst > 0 {
					l.Burst = rapid.IntRange(1, 200).Draw(t, "burst")
				}
				continue
			case 1: // given back
				n, name := rapid.IntRange(1, l.Max()).Draw(t, "n"), strconv.Itoa(rapid.IntRange(0, id).Draw(t, "id"))
				plain.Refund(l, now, name, n)
				g.use(l, now, func(s *State) { s.Refund(l, now, name, n) })
				continue
			case 20:
				n := rapid.IntRange(-l.Max(), l.Max()).Draw(t, "charge")
				plain.Charge(l, now, n)
				g.use(l, now, func(s *State) { s.Charge(l, now, n) })
				continue
			case 2: // a peek
			case 3:
				id++
				a.ID = strconv.Itoa(id)
				if l.Algorithm == driver.TokenBucket {
					a.MaxDelay = time.Duration(rapid.Int64Range(0, int64(per)).Draw(t, "delay")).Truncate(time.Microsecond)
				}
				fallthrough
			default:
				a.N = rapid.OneOf(rapid.Just(1), rapid.IntRange(1, l.Max())).Draw(t, "n")
				a.Min = rapid.SampledFrom([]int{1, a.N}).Draw(t, "min")
			}
			one, _ := plain.Take(l, now, a)
			want := driver.Quick{N: one.N, Remaining: one.Remaining, RetryAfter: one.RetryAfter, ResetAfter: one.ResetAfter}
			if got := g.take(l, now, a); got != want {
				t.Fatalf("%+v of %v at %d: %+v with a gate, %+v without", a, l, now, got, want)
			}
		}
		quick += g.quick
	})
	t.Logf("%d answers of gates", quick)
	if quick == 0 {
		t.Error("no gate answered")
	}
}

// Many goroutines at one gate are granted what there is, and no more.
func TestGateIsExact(t *testing.T) {
	for name, l := range map[string]driver.Limit{
		"window": {Rate: 10_000, Per: time.Hour, Algorithm: driver.FixedWindow},
		"bucket": {Rate: 10_000, Per: time.Hour, Burst: 10_000, Algorithm: driver.TokenBucket},
	} {
		t.Run(name, func(t *testing.T) {
			var g gated
			const now = 1 << 50
			g.take(l, now, driver.Ask{Min: 1, N: 1})
			granted := make([]int, 8)
			var wg sync.WaitGroup
			for i := range granted {
				wg.Go(func() {
					for j := range 3000 {
						q, ok := g.gate.Take(g.gate.Word(), now, 1, 1+j%3)
						if ok {
							granted[i] += q.N
						}
					}
				})
			}
			wg.Wait()
			sum := 1
			for _, n := range granted {
				sum += n
			}
			if sum != 10_000 {
				t.Errorf("%d granted: want 10000", sum)
			}
			g.gate.Shut(&g.state, now)
			if one, _ := g.state.Take(l, now, driver.Ask{}); one.Remaining != 0 {
				t.Errorf("%d are left", one.Remaining)
			}
		})
	}
}

// A bucket's gate counts up to a bound, and is replaced then.
func TestGateIsSpent(t *testing.T) {
	l := driver.Limit{Rate: driver.MaxRate, Per: driver.MinPer, Burst: 1000, Algorithm: driver.TokenBucket}
	var g gated
	now := int64(1 << 50)
	first := g.gate
	for range 10 {
		now += int64(time.Hour / time.Microsecond)
		for n := range 1000 {
			if q := g.take(l, now, driver.Ask{Min: 1, N: 1}); q.N != 1 || q.Remaining != 999-n {
				t.Fatalf("%+v after %d", q, n)
			}
		}
		if first == nil {
			first = g.gate
		}
	}
	if g.gate == first || g.quick < 9000 {
		t.Errorf("%d answers of the gate, still the first: %v", g.quick, g.gate == first)
	}
}

// Who shuts a gate may have read the clock before others were granted something there.
func TestGateIsShutLate(t *testing.T) {
	for name, l := range map[string]driver.Limit{
		"window": {Rate: 10, Per: time.Second, Algorithm: driver.FixedWindow},
		"bucket": {Rate: 100, Per: time.Second, Burst: 10, Algorithm: driver.TokenBucket},
	} {
		t.Run(name, func(t *testing.T) {
			var plain State
			var g gated
			const now, later = 1_000_000_000_000, 1_000_000_050_000
			one := driver.Ask{Min: 1, N: 1}
			plain.Take(l, now, one)
			g.take(l, now, one)
			for range 8 {
				plain.Take(l, later, one)
				g.take(l, later, one)
			}
			if g.quick != 8 {
				t.Fatalf("%d answers of the gate", g.quick)
			}
			g.gate.Shut(&g.state, now)
			for i := range 5 {
				want, _ := plain.Take(l, later, one)
				got, _ := g.state.Take(l, later, one)
				if got.N != want.N || got.Remaining != want.Remaining || got.ResetAfter != want.ResetAfter {
					t.Errorf("ask %d: %+v after the gate, %+v without", i, got, want)
				}
			}
		})
	}
}
