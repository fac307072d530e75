package limits

import (
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// t0 is an arbitrary instant, not aligned to anything.
const t0 = 1_790_000_000_123_457

func normal(tb testing.TB, l driver.Limit) driver.Limit {
	tb.Helper()
	l, err := l.Normal()
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func parse(tb testing.TB, s string) driver.Limit {
	tb.Helper()
	l, err := driver.ParseLimit(s)
	if err != nil {
		tb.Fatal(err)
	}
	return normal(tb, l)
}

func us(d time.Duration) int64 { return d.Microseconds() }

func TestName(t *testing.T) {
	for in, want := range map[string]string{
		"10/1m":              "sw:60000000",
		"10/1m fixed-window": "fw:60000000",
		"10/1m burst=5":      "tb:1:6000000",
		"7/1s token-bucket":  "tb:7:1000000",
		"1/1ms":              "sw:1000",
	} {
		if got := Name(parse(t, in)); got != want {
			t.Errorf("Name(%s) = %q, want %q", in, got, want)
		}
	}
}

// step is one call of a table.
type step struct {
	at   time.Duration // since t0
	ask  driver.Ask
	want driver.TakenOne
}

func granted(n int, remaining int, reset time.Duration) driver.TakenOne {
	return driver.TakenOne{Granted: driver.Granted{N: n}, Remaining: remaining, ResetAfter: reset}
}

func denied(retry time.Duration, remaining int, reset time.Duration) driver.TakenOne {
	return driver.TakenOne{Granted: driver.Granted{RetryAfter: retry}, Remaining: remaining, ResetAfter: reset}
}

func TestTokenBucketSteps(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	one := driver.Ask{Min: 1, N: 1}
	for name, tt := range map[string]struct {
		limit string
		steps []step
	}{
		"burst then refill": {"10/1s burst=3", []step{
			{0, driver.Ask{Min: 3, N: 3}, granted(3, 0, 300*ms)},
			{0, one, denied(100*ms, 0, 300*ms)},
			{99 * ms, one, denied(1*ms, 0, 201*ms)},
			{100 * ms, one, granted(1, 0, 300*ms)},
			{10 * s, driver.Ask{}, granted(0, 3, 0)},
		}},
		"at most": {"10/1s burst=5", []step{
			{0, driver.Ask{Min: 1, N: 3}, granted(3, 2, 300*ms)},
			{0, driver.Ask{Min: 3, N: 4}, denied(100*ms, 2, 300*ms)},
			{0, driver.Ask{Min: 1, N: 4}, granted(2, 0, 500*ms)},
			{0, driver.Ask{}, denied(100*ms, 0, 500*ms)},
		}},
		"the clock goes back": {"10/1s burst=1", []step{
			{0, one, granted(1, 0, 100*ms)},
			{-5 * s, one, denied(5100*ms, 0, 5100*ms)},
			{-5*s + 5100*ms, one, granted(1, 0, 100*ms)},
		}},
		"reservations": {"1/1s burst=1", []step{
			{0, one, granted(1, 0, s)},
			{0, driver.Ask{Min: 1, N: 1, MaxDelay: 999 * ms}, denied(1*ms, 0, s)},
			{0, driver.Ask{Min: 1, N: 1, MaxDelay: 5 * s}, driver.TakenOne{Granted: driver.Granted{N: 1, Delay: s}, ResetAfter: 2 * s}},
			{0, one, denied(2*s, 0, 2*s)},
			{500 * ms, driver.Ask{Min: 1, N: 1, MaxDelay: 5 * s}, driver.TakenOne{Granted: driver.Granted{N: 1, Delay: 1500 * ms}, ResetAfter: 2500 * ms}},
		}},
	} {
		t.Run(name, func(t *testing.T) { runSteps(t, parse(t, tt.limit), tt.steps) })
	}
}

func runSteps(t *testing.T, l driver.Limit, steps []step) {
	t.Helper()
	var st State
	for i, sp := range steps {
		got, changed := st.Take(l, t0+us(sp.at), sp.ask)
		got.ValidFor = 0 // has its own test
		if got != sp.want {
			t.Errorf("step %d: got %+v\nwant %+v", i, got, sp.want)
		}
		if changed != (sp.want.N > 0) {
			t.Errorf("step %d: changed = %v", i, changed)
		}
	}
}

func TestWindowSteps(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	one := driver.Ask{Min: 1, N: 1}
	// Offsets so that the first call falls on a boundary.
	second := time.Duration(1_000_000-t0%1_000_000) * time.Microsecond
	for name, tt := range map[string]struct {
		limit string
		steps []step
	}{
		"fixed": {"5/1s fixed-window", []step{
			{second, driver.Ask{Min: 3, N: 3}, granted(3, 2, s)},
			{second + 900*ms, driver.Ask{Min: 3, N: 3}, denied(100*ms, 2, 100*ms)},
			{second + 900*ms, driver.Ask{Min: 1, N: 3}, granted(2, 0, 100*ms)},
			{second + 999*ms, one, denied(1*ms, 0, 1*ms)},
			{second + 1000*ms, driver.Ask{Min: 5, N: 5}, granted(5, 0, s)},
			{second + 1000*ms, driver.Ask{}, denied(s, 0, s)},
		}},
		"sliding": {"5/1s", []step{
			{second, driver.Ask{Min: 3, N: 3}, granted(3, 2, 1010*ms)},
			{second + 500*ms, driver.Ask{Min: 2, N: 2}, granted(2, 0, 1010*ms)},
			{second + 600*ms, one, denied(410*ms, 0, 910*ms)},
			{second + 600*ms, driver.Ask{Min: 4, N: 4}, denied(910*ms, 0, 910*ms)},
			{second + 1009*ms, one, denied(1*ms, 0, 501*ms)},
			{second + 1010*ms, driver.Ask{}, granted(0, 3, 500*ms)},
			{second + 1010*ms, driver.Ask{Min: 1, N: 5}, granted(3, 0, 1010*ms)},
		}},
		"the clock goes back": {"1/1s", []step{
			{second, one, granted(1, 0, 1010*ms)},
			{second - 5*s, one, denied(6010*ms, 0, 6010*ms)},
			{second + 1010*ms, one, granted(1, 0, 1010*ms)},
		}},
	} {
		t.Run(name, func(t *testing.T) { runSteps(t, parse(t, tt.limit), tt.steps) })
	}
}
