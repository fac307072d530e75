package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestJain(t *testing.T) {
	for _, tc := range []struct {
		got  []int
		want float64
	}{
		{nil, 1}, {[]int{0, 0}, 1}, {[]int{7, 7, 7}, 1}, {[]int{9, 0, 0}, 1. / 3}, {[]int{1, 3}, 0.8},
	} {
		if got := Jain(tc.got); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("Jain(%v) = %v, want %v", tc.got, got, tc.want)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		want   Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3, 1}},
		{[]float64{5, 1, 9}, Spread{5, 1, 9, 3}},
		{[]float64{4, 1, 2, 9}, Spread{3, 1, 9, 4}},
	} {
		if got := SpreadOf(tc.values); got != tc.want {
			t.Errorf("SpreadOf(%v) = %v, want %v", tc.values, got, tc.want)
		}
	}
}

func TestHistKeepsThreePercent(t *testing.T) {
	for v := time.Duration(1); v < time.Hour; v = v*5/4 + 1 {
		var h Hist
		h.Add(v)
		h.Add(2 * time.Hour) // so that the quantile is not cut to the longest
		if got := h.Quantile(0); math.Abs(float64(got-v)) > 0.03*float64(v) {
			t.Errorf("%d was counted as %d", v, got)
		}
	}
	var h, other Hist
	for i := range 500 {
		h.Add(time.Duration(i+1) * time.Microsecond)
		other.Add(time.Duration(i+501) * time.Microsecond)
	}
	h.Merge(&other)
	for q, want := range map[float64]time.Duration{0: time.Microsecond, 0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond, 1: time.Millisecond} {
		if got := h.Quantile(q); math.Abs(float64(got-want)) > 0.03*float64(want) {
			t.Errorf("quantile %v of 1 to 1000 µs: %v", q, got)
		}
	}
	if h.N() != 1000 || h.Max() != time.Millisecond {
		t.Errorf("%d counted, longest %v", h.N(), h.Max())
	}
	h.Add(-1)
	h.Add(math.MaxInt64)
	if got := new(Hist).Quantile(0.5); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestHistCrossesProcesses(t *testing.T) {
	var h, back Hist
	for i := range 100 {
		h.Add(time.Duration(i*i) * time.Microsecond)
	}
	data, err := json.Marshal(&h)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &back); err != nil || back != h {
		t.Errorf("it came back otherwise: %v", err)
	}
	for _, bad := range []string{`[]`, `[1,2]`, `[1,-1,1]`, `[1,99999,1]`, `[1,1,-1]`, `{}`} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s was read as a histogram", bad)
		}
	}
}

func TestRunCountsWhatEndedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Run(t.Context(), Load{Workers: 2, For: time.Second}, func(_ context.Context, worker int) error {
			time.Sleep(time.Duration(worker+1) * 90 * time.Millisecond)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		// The twelfth of one and the sixth of the other end too late.
		if s.Ops != 16 || s.PerWorker[0] != 11 || s.PerWorker[1] != 5 || s.Took != time.Second || s.PerSecond() != 16 {
			t.Errorf("%+v", s)
		}
		if mean := s.Mean(); mean != 125*time.Millisecond {
			t.Errorf("mean %v", mean)
		}
	})
}

// Where nothing ends in time, what ends late is told, and how late.
func TestRunThatIsTooShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Run(t.Context(), Load{Workers: 2, For: time.Second}, func(context.Context, int) error {
			time.Sleep(4 * time.Second)
			return nil
		})
		if err != nil || s.Ops != 2 || s.Took != 4*time.Second || s.Mean() != 4*time.Second || s.Latency.Max() != 4*time.Second {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

func TestRunTellsWhatFailsAndWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("bad")
		_, err := Run(t.Context(), Load{Workers: 3, For: time.Hour}, func(_ context.Context, worker int) error {
			time.Sleep(time.Second)
			if worker == 1 {
				return bad
			}
			return nil
		})
		if !errors.Is(err, bad) {
			t.Errorf("%v, want %v", err, bad)
		}
		never := make(chan struct{})
		_, err = Run(t.Context(), Load{Workers: 3, For: time.Second, Patience: time.Minute}, func(_ context.Context, worker int) error {
			if worker == 0 {
				<-never
				return nil
			}
			time.Sleep(time.Second)
			return nil
		})
		if !errors.Is(err, ErrHung) || !strings.Contains(err.Error(), "1 of 3 goroutines did not return within 1m1s") {
			t.Errorf("%v, want %v", err, ErrHung)
		}
		close(never)
		synctest.Wait()
	})
}

type unlock func()

func (u unlock) Unlock(context.Context) error { u(); return nil }

// mutex is a sound lock of one key, whose waiters a bubble of synctest counts as at rest.
type mutex chan struct{}

func newMutex() mutex { return make(mutex, 1) }

func (m mutex) Lock(context.Context, string) (Held, error) {
	m <- struct{}{}
	return unlock(func() { <-m }), nil
}

// broken grants everything at once.
type broken struct{}

func (broken) Lock(context.Context, string) (Held, error) { return unlock(func() {}), nil }

func TestLocksFindTwoHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, l := range []Locker{newMutex(), broken{}} {
			var words Words
			load := LockLoad{Load: Load{Workers: 4, For: time.Second}, Key: "k", Keys: 1, Section: time.Millisecond}
			s, err := Locks(t.Context(), l, load, &words)
			if err != nil {
				t.Fatal(err)
			}
			if found := s.Overlaps > 0; found != (l == Locker(broken{})) {
				t.Errorf("%T: %d overlaps", l, s.Overlaps)
			}
			if l != Locker(broken{}) && (s.Ops != 1000 || s.Wait.N() < 1000 || s.Moving <= 0 || s.Moving > 1) {
				t.Errorf("%d holds of a millisecond each in a second, %d waits, %v moving", s.Ops, s.Wait.N(), s.Moving)
			}
		}
	})
}

// The register is the judge of every lock that is measured.
// Holds that are shared overlap only where they are more together than may be.
func TestRegisterOfShared(t *testing.T) {
	var r Register
	r.EnterShared(1, 3)
	r.EnterShared(2, 3)
	if n := r.Overlaps(); n != 0 {
		t.Errorf("3 of 3: %d overlaps", n)
	}
	r.EnterShared(1, 3)
	r.LeaveShared(2)
	r.EnterShared(1, 3)
	if n := r.Overlaps(); n != 1 {
		t.Errorf("4 of 3, then 3: %d overlaps, want 1", n)
	}
}

func TestRegister(t *testing.T) {
	var r Register
	for _, who := range []int64{1, 1, 2} {
		r.Enter(who)
		r.Leave(who)
	}
	if r.Overlaps() != 0 || r.Moving() != 2./3 || r.Entered() != 3 {
		t.Errorf("sound holders: %d overlaps, %v moving, %d entered", r.Overlaps(), r.Moving(), r.Entered())
	}
	r.Enter(1)
	r.Enter(2)
	r.Leave(1)
	r.Leave(2)
	if r.Overlaps() == 0 {
		t.Error("two were inside at once, and no overlap was found")
	}
}

func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := handOvers(t, 10*time.Second)
		if a+b < 500 || a-b > 1 || b-a > 1 {
			t.Errorf("%d and %d hand-overs", a, b)
		}
		if a, b := handOvers(t, 0); a+b != 1 {
			t.Errorf("%d and %d hand-overs in no time, want one", a, b)
		}
	})
}

func handOvers(t *testing.T, within time.Duration) (int, int) {
	var words Words
	m := newMutex()
	var hists [2]*Hist
	var wg sync.WaitGroup
	until := time.Now().Add(within)
	for side := range hists {
		wg.Go(func() {
			var err error
			if hists[side], err = Wake(t.Context(), m, "k", side, until, &words); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if words.Register().Overlaps() != 0 {
		t.Error("overlaps of a sound lock")
	}
	return hists[0].N(), hists[1].N()
}

// stuck grants the first Lock, and no other.
type stuck struct{ calls atomic.Int64 }

func (s *stuck) Lock(ctx context.Context, key string) (Held, error) {
	if s.calls.Add(1) > 1 {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return unlock(func() {}), nil
}

func TestWakeAndHerdTellALockThatWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var words Words
		s := new(stuck)
		first := make(chan error)
		go func() {
			_, err := Wake(ctx, s, "k", 0, time.Now().Add(time.Hour), &words)
			first <- err
		}()
		synctest.Wait()
		if _, err := Wake(ctx, s, "k", 1, time.Now().Add(time.Hour), &words); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the waiter: %v", err)
		}
		if err := <-first; !errors.Is(err, ErrHung) {
			t.Errorf("the holder: %v, want %v", err, ErrHung)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var words Words
		s := new(stuck)
		herd := func(ctx context.Context) error { return Herd(ctx, s, "k", 5, 0, &words) }
		_, err := HoldUp(ctx, s, "k", 5, time.Second, &words, herd, func(context.Context) float64 { return 0 })
		if !errors.Is(err, ErrHung) || !strings.Contains(err.Error(), "0 of 5 waiters had the lock") {
			t.Errorf("%v, want %v", err, ErrHung)
		}
	})
}

// refusing is a lock whose second caller fails while the first has it and others wait.
type refusing struct {
	stuck
	asked atomic.Int32
}

var errRefused = errors.New("refused")

func (r *refusing) Lock(ctx context.Context, key string) (Held, error) {
	if r.asked.Add(1) == 2 {
		return nil, errRefused
	}
	return r.stuck.Lock(ctx, key)
}

// A waiter that fails ends the wait for all, at once.
func TestHerdThatLosesAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var words Words
		r := new(refusing)
		began := time.Now()
		herd := func(ctx context.Context) error { return Herd(ctx, r, "k", 5, 0, &words) }
		_, err := HoldUp(ctx, r, "k", 5, 10*time.Second, &words, herd, func(context.Context) float64 { return 0 })
		if !errors.Is(err, errRefused) || errors.Is(err, ErrHung) || time.Since(began) >= time.Second {
			t.Errorf("after %v: %v, want %v", time.Since(began), err, errRefused)
		}
	})
}

func TestHerdDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var words Words
		m := newMutex()
		herd := func(ctx context.Context) error { return Herd(ctx, m, "k", 50, 0, &words) }
		began := time.Now()
		s, err := HoldUp(t.Context(), m, "k", 50, 2*time.Second, &words, herd, func(context.Context) float64 { return time.Since(began).Seconds() })
		if err != nil {
			t.Fatal(err)
		}
		if s.Waiting != 2*time.Second || s.Idle != 2 || s.Overlaps != 0 || words.Register().Entered() != 50 {
			t.Errorf("%+v, %d had it", s, words.Register().Entered())
		}
	})
}

func TestLimitsAndSaturate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Limits(t.Context(), &chanLimiter{sem: make(chan int, 1), n: 100}, LimitLoad{Load: Load{Workers: 1, For: time.Second}, Key: "k", Keys: 3})
		if err != nil || s.Allowed != 100 || s.Denied < 890 {
			t.Errorf("%+v, %v", s, err)
		}
		permits, err := Saturate(t.Context(), &chanLimiter{sem: make(chan int, 1), n: 100}, "k", 4, time.Now().Add(time.Second))
		if err != nil || len(permits) != 100 {
			t.Errorf("%d permits, %v", len(permits), err)
		}
	})
}

// chanLimiter takes a millisecond for each decision, one after the other.
type chanLimiter struct {
	sem chan int
	n   int
}

func (c *chanLimiter) Allow(context.Context, string) (bool, error) {
	c.sem <- 0
	defer func() { <-c.sem }()
	time.Sleep(time.Millisecond)
	c.n--
	return c.n >= 0, nil
}

func TestWindows(t *testing.T) {
	at := func(sent, got int64) Permit { return Permit{sent, got} }
	for _, tc := range []struct {
		permits      []Permit
		from         int64
		first, worst int
	}{
		{nil, 0, 0, 0},
		{[]Permit{at(0, 1), at(5, 6), at(10, 11)}, 0, 2, 2}, // the third was answered at 11, after the window
		{[]Permit{at(0, 1), at(5, 6), at(9, 10)}, 0, 3, 3},
		{[]Permit{at(0, 1), at(20, 21), at(22, 23), at(24, 25)}, 0, 1, 3},
		{[]Permit{at(0, 1), at(20, 21), at(22, 23), at(24, 25)}, 20, 3, 3},
		// Asked for long ago, answered late: it may have been given at any time.
		{[]Permit{at(0, 100), at(98, 99)}, 95, 1, 1},
	} {
		if first, worst := Windows(tc.permits, tc.from, 10); first != tc.first || worst != tc.worst {
			t.Errorf("%v from %d: %d in the first window and %d in the worst, want %d and %d", tc.permits, tc.from, first, worst, tc.first, tc.worst)
		}
	}
}

func TestChartIsXML(t *testing.T) {
	for name, c := range map[string]Chart{
		"empty":  {Title: "nothing", Unit: "ms"},
		"failed": {Title: "a", Unit: "ms", Groups: []Group{{Name: "redis", Bars: []Bar{{Label: "x", Failed: "hung <&>"}}}}},
		"linear": {Title: "a < b & c", Unit: "ms", Groups: []Group{{Name: "redis", Bars: []Bar{{Label: "x", Kind: Ours, Value: 5, Low: 4, Up: 6}, {Label: "y", Kind: Peer, Value: 50}}}}},
		"log":    {Title: "a", Unit: "ms", Groups: []Group{{Name: "redis", Bars: []Bar{{Label: "x", Kind: Ours, Value: 5}, {Label: "y", Kind: Floor, Value: 5000, Low: 0, Up: 6000}}}}},
	} {
		svg := c.SVG()
		for dec := xml.NewDecoder(bytes.NewReader(svg)); ; {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, svg)
			}
		}
		if got := bytes.Contains(svg, []byte("logarithmic")); got != (name == "log") {
			t.Errorf("%s: logarithmic %v", name, got)
		}
		if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
			t.Errorf("%s: a place that is none:\n%s", name, svg)
		}
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 0.0123: "0.0123", 1.239: "1.24", 12.34: "12.3", 123.4: "123", 999.9: "1,000", 1234: "1,230",
		24.96: "25", 31234: "31,230", 1234567: "1,230,000", 100: "100", 3: "3", -2: "-2",
	} {
		if got := Figure(v); got != want {
			t.Errorf("Figure(%v) = %q, want %q", v, got, want)
		}
	}
}
