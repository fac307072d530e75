package bench

import (
	"context"
	"errors"
	"math"
	"strings"
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
		m := newMutex()
		for _, clients := range [][]Locker{{m}, {m, m}, {broken{}}, {broken{}, broken{}}} {
			load := LockLoad{Load: Load{Workers: 4, For: time.Second}, Key: "k", Keys: 1, Section: time.Millisecond}
			s, err := Locks(t.Context(), clients, load)
			if err != nil {
				t.Fatal(err)
			}
			sound := clients[0] != Locker(broken{})
			if found := s.Overlaps > 0; found == sound {
				t.Errorf("%T: %d overlaps", clients[0], s.Overlaps)
			}
			if sound && (s.Ops != 1000 || s.Wait.N() < 1000 || s.Moving <= 0 || s.Moving > 1) {
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
	if r.Overlaps() != 0 || r.Moving() != 2./3 {
		t.Errorf("sound holders: %d overlaps, %v moving", r.Overlaps(), r.Moving())
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
		m := newMutex()
		for within, most := range map[time.Duration]int{0: 1, 10 * time.Second: 2000} {
			h, overlaps, err := Wake(t.Context(), [2]mutex{m, m}, "k", time.Now().Add(within))
			if err != nil || overlaps != 0 || h.N() > most || h.N() < most/4 {
				t.Errorf("%d hand-overs in %v, %d overlaps, %v", h.N(), within, overlaps, err)
			}
		}
	})
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
		s := new(stuck)
		_, _, err := Wake(ctx, [2]*stuck{s, s}, "k", time.Now().Add(time.Hour))
		if !errors.Is(err, ErrHung) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want %v", err, ErrHung)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := new(stuck)
		_, err := HoldUp(ctx, s, []*stuck{s, s}, "k", 5, time.Second, none)
		if !errors.Is(err, ErrHung) || !strings.Contains(err.Error(), "0 of 5 waiters had the lock") {
			t.Errorf("%v, want %v", err, ErrHung)
		}
	})
}

func none() (float64, error) { return 0, nil }

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
		r := new(refusing)
		began := time.Now()
		_, err := HoldUp(ctx, r, []*refusing{r}, "k", 5, 10*time.Second, none)
		if !errors.Is(err, errRefused) || errors.Is(err, ErrHung) || time.Since(began) >= time.Second {
			t.Errorf("after %v: %v, want %v", time.Since(began), err, errRefused)
		}
	})
}

func TestHerdDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMutex()
		began := time.Now()
		s, err := HoldUp(t.Context(), m, []mutex{m, m}, "k", 50, 2*time.Second, func() (float64, error) { return time.Since(began).Seconds(), nil })
		if err != nil {
			t.Fatal(err)
		}
		if s.Waiting != 2*time.Second || s.Idle != 2 || s.Overlaps != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Limits(t.Context(), &chanLimiter{sem: make(chan int, 1), n: 100}, LimitLoad{Load: Load{Workers: 1, For: time.Second}, Key: "k", Keys: 3})
		if err != nil || s.Allowed != 100 || s.Denied < 890 {
			t.Errorf("%+v, %v", s, err)
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

func TestMedian(t *testing.T) {
	for want, values := range map[float64][]float64{0: nil, 3: {3}, 2.5: {1, 2, 3, 9}, 7: {1, 7, 8}} {
		if got := Median(values); got != want {
			t.Errorf("Median(%v) = %v, want %v", values, got, want)
		}
	}
}
