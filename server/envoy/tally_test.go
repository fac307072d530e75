package envoy

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// sums is a store of counters. Each call waits for its outcome.
type sums struct {
	mu    sync.Mutex
	of    map[string]int
	calls int
	may   chan error
}

func (s *sums) Charge(ctx context.Context, key string, l coord.Limit, n int) (coord.Result, error) {
	select {
	case err := <-s.may:
		if err != nil {
			return coord.Result{}, err
		}
	case <-ctx.Done():
		return coord.Result{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.of[key] = min(s.of[key]+n, driver.MaxRate)
	return coord.Result{Remaining: l.Rate - s.of[key], ResetAfter: l.Per}, nil
}

// running is a tally whose calls are made at once.
type running struct{ *tally }

func (r running) add(ctx context.Context, to account, hits uint64) *addition {
	a, first := r.tally.add(ctx, to, hits)
	if first {
		go r.run(to)
	}
	return a
}

func newSums() *sums { return &sums{of: make(map[string]int), may: make(chan error)} }

// Additions that share calls see what they would see one after the other.
func TestTallySharesCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSums()
		ta := running{newTally(s)}
		to := account{"k", time.Minute}
		var all []*addition
		var want []int
		sum := 0
		for i := range 151 {
			hits := rand.IntN(4)
			if i == 1 {
				synctest.Wait() // the first one's call is under way
			}
			all = append(all, ta.add(t.Context(), to, uint64(hits)))
			sum += hits
			want = append(want, sum)
		}
		close(s.may)
		for i, a := range all {
			if err := a.wait(t.Context()); err != nil || a.after != want[i] || a.reset != time.Minute {
				t.Fatalf("%d: %d, %v, %v: want %d", i, a.after, a.reset, err, want[i])
			}
		}
		synctest.Wait()
		if s.calls != 2 || len(ta.queues) != 0 { // one, and one of 150
			t.Errorf("%d calls, %d queues left: want 2 and none", s.calls, len(ta.queues))
		}
	})
}

// A call that is shared ends after callTime, however long its callers would wait. One alone ends with its caller.
func TestTallyIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ta := running{newTally(newSums())}
		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		patient, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		alone := ta.add(short, account{"k", time.Minute}, 1)
		synctest.Wait() // its call is under way
		for _, a := range []*addition{alone, ta.add(patient, account{"k", time.Minute}, 1), ta.add(t.Context(), account{"k", time.Minute}, 1)} {
			if err := a.wait(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
		}
		if took := time.Since(began); took != time.Second+callTime {
			t.Errorf("after %v", took)
		}
	})
}

// Who leads makes a call of its own, and does not wait for those of others.
func TestTallyLead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSums()
		ta := newTally(s)
		to := account{"k", time.Minute}
		a, first := ta.add(t.Context(), to, 1)
		led := make(chan struct{})
		go func() { defer close(led); ta.lead(to) }()
		synctest.Wait() // its call is under way
		b, second := ta.add(t.Context(), to, 1)
		if !first || second {
			t.Errorf("first: %t, %t", first, second)
		}
		s.may <- nil
		<-led
		if err := a.wait(t.Context()); err != nil || a.after != 1 {
			t.Errorf("a: %d, %v", a.after, err)
		}
		s.may <- nil
		if err := b.wait(t.Context()); err != nil || b.after != 2 {
			t.Errorf("b: %d, %v", b.after, err)
		}
		synctest.Wait()
		if len(ta.queues) != 0 {
			t.Errorf("%d queues left", len(ta.queues))
		}
	})
}

// Who leads and then leaves does not wait for the call, be it alone or not, and takes nobody with it.
func TestTallyLeadLeaves(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			s := newSums()
			ta := newTally(s)
			to := account{"k", time.Minute}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			began := time.Now()
			own, _ := ta.add(ctx, to, 1)
			rest := make([]*addition, others)
			for i := range rest {
				rest[i], _ = ta.add(t.Context(), to, 1)
			}
			ta.lead(to)
			err := own.wait(ctx)
			if took := time.Since(began); !errors.Is(err, context.Canceled) || took != time.Second {
				t.Errorf("with %d others: %v after %v", others, err, took)
			}
			close(s.may)
			for i, a := range rest {
				if err := a.wait(t.Context()); err != nil || a.after != 2+i {
					t.Errorf("%d: %d, %v: want %d", i, a.after, err, 2+i)
				}
			}
			synctest.Wait()
			if len(ta.queues) != 0 {
				t.Errorf("%d queues left", len(ta.queues))
			}
		})
	}
}

// A counter that is full is above every limit for each addition of a call.
func TestTallyFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSums()
		close(s.may)
		ta := running{newTally(s)}
		to := account{"k", time.Minute}
		var all []*addition
		for range 320 {
			all = append(all, ta.add(t.Context(), to, 1<<63))
		}
		for i, a := range all {
			if err := a.wait(t.Context()); err != nil || a.after <= maxRequests {
				t.Fatalf("%d: %d, %v: want it above %d", i, a.after, err, maxRequests)
			}
		}
		if s.of["k"] != driver.MaxRate {
			t.Errorf("%d: the test does not fill the counter", s.of["k"])
		}
	})
}

// A call lasts as long as the last of those who wait for it. Who leaves leaves alone, and an error is that of one call.
func TestTallyErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSums()
		ta := running{newTally(s)}
		to := account{"k", time.Minute}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		long, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		first := ta.add(short, to, 1)
		synctest.Wait()
		second, third := ta.add(short, to, 1), ta.add(long, to, 1)
		if err := first.wait(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("first: %v", err)
		}
		if err := second.wait(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("second: %v", err)
		}
		synctest.Wait()
		s.may <- nil
		if err := third.wait(long); err != nil || third.after != 2 {
			t.Errorf("third: %d, %v: want 2, for the second is counted", third.after, err)
		}
		synctest.Wait()
		broken := errors.New("broken")
		a := ta.add(t.Context(), to, 1)
		synctest.Wait()
		b := ta.add(t.Context(), to, 1)
		s.may <- broken
		s.may <- nil
		if err := a.wait(t.Context()); !errors.Is(err, broken) {
			t.Errorf("a: %v", err)
		}
		if err := b.wait(t.Context()); err != nil || b.after != 3 {
			t.Errorf("b: %d, %v", b.after, err)
		}
	})
}

// far is a store on which each call takes its time.
type far struct {
	takes time.Duration
	sum   atomic.Int64
}

func (f *far) Charge(ctx context.Context, _ string, l coord.Limit, n int) (coord.Result, error) {
	select {
	case <-time.After(f.takes):
	case <-ctx.Done():
		return coord.Result{}, ctx.Err()
	}
	return coord.Result{Remaining: l.Rate - int(f.sum.Add(int64(n)))}, nil
}

// However often a counter is asked for, everybody has the answer after two calls at most.
func TestTallyCrowded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &far{takes: 20 * time.Millisecond}
		ta := running{newTally(f)}
		var all sync.WaitGroup
		var late atomic.Int64
		const requests = 8000 // in a second: 160 come while a call is under way
		for range requests {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if ta.add(ctx, account{"k", time.Minute}, 1).wait(ctx) != nil {
					late.Add(1)
				}
			})
			time.Sleep(time.Second / requests)
		}
		all.Wait()
		if late.Load() != 0 || f.sum.Load() != requests {
			t.Errorf("%d of %d requests had no answer in time, %d are counted", late.Load(), requests, f.sum.Load())
		}
	})
}
