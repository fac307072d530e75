package coord

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// batchedLimits is a limiter that shows which requests came in one call.
type batchedLimits struct {
	*fakeLimits
	mu      sync.Mutex
	batches [][]int // N of each request
}

func (f *batchedLimits) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(f.Take(ctx, key, l, []driver.Ask{a}))
}

func (f *batchedLimits) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	ns := make([]int, 0, len(asks))
	for _, a := range asks {
		ns = append(ns, a.N)
	}
	f.mu.Lock()
	f.batches = append(f.batches, ns)
	f.mu.Unlock()
	return f.fakeLimits.Take(ctx, key, l, asks)
}

func newBatches() *batchedLimits { return &batchedLimits{fakeLimits: newFakeLimits()} }

// stuckFirst makes the first call wait until release is called; the others go on.
func (f *batchedLimits) stuckFirst() (release func()) {
	gate, once := make(chan struct{}), sync.Once{}
	f.setIntercept(func(op, key string) outcome {
		first := false
		once.Do(func() { first = true })
		if first {
			<-gate
		}
		return outcome{}
	})
	return func() { close(gate) }
}

// stuck is a client whose first call does not return from the store until release is called.
type stuck struct {
	*Client
	f       *batchedLimits
	release func()
	wg      sync.WaitGroup // of the requests
}

// whileStuck runs fn in a bubble. ask is the first ask, under "k", which is in the store by then.
func whileStuck(t *testing.T, ask func(*testing.T, *Client), fn func(*testing.T, *stuck)) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatches()
		s := &stuck{Client: newTestClient(t, f), f: f, release: f.stuckFirst()}
		s.wg.Go(func() { ask(t, s.Client) })
		synctest.Wait()
		fn(t, s)
	})
}

// askTen asks for one permit of ten.
func askTen(t *testing.T, c *Client) {
	must[Result](t)(c.Allow(t.Context(), "k", ten))
}

func TestAsksFlyTogether(t *testing.T) {
	limit := PerHour(50)
	results := make([]Result, 10)
	ask := func(t *testing.T, c *Client, i int) {
		results[i] = must[Result](t)(c.AllowN(t.Context(), "k", limit, i+1))
	}
	whileStuck(t, func(t *testing.T, c *Client) { ask(t, c, 0) }, func(t *testing.T, s *stuck) {
		for i := 1; i < len(results); i++ {
			s.wg.Go(func() { ask(t, s.Client, i) })
			synctest.Wait() // one after the other, so that the order is known
		}
		s.release()
		s.wg.Wait()
		if got := fmt.Sprint(s.f.batches); got != "[[1] [2 3 4 5 6 7 8 9 10]]" {
			t.Errorf("batches %s: want the first request alone and the others together, in order", got)
		}
		sum := 0
		for i, r := range results {
			sum += r.Granted
			// 1+2+…+9 = 45 fit into 50, the tenth does not.
			if want := i < 9; r.Allowed != want || !want && r.RetryAfter <= 0 {
				t.Errorf("ask %d: %+v", i+1, r)
			}
		}
		if n := left(t, s.Client, "k", limit); sum != 45 || n != 5 {
			t.Errorf("%d granted and %d left of 50", sum, n)
		}
		if s.permits.Stats().Queues != 0 {
			t.Errorf("%d lines are left", s.permits.Stats().Queues)
		}
	})
}

// Different keys and limits do not wait for one another.
func TestFlightsAreApart(t *testing.T) {
	whileStuck(t, askTen, func(t *testing.T, s *stuck) {
		start := time.Now()
		must[Result](t)(s.Allow(t.Context(), "other", ten))
		must[Result](t)(s.Allow(t.Context(), "k", PerSecond(11)))
		if d := time.Since(start); d != 0 {
			t.Errorf("they waited %v for a call on another limit", d)
		}
		s.release()
		s.wg.Wait()
	})
}

// A caller who leaves the queue took nothing. One who leaves a batch may have got what it asked for. Neither disturbs the
// others.
func TestCancelledAskHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatches()
		c := newTestClient(t, f)
		limit := PerHour(50)
		gates := make(chan struct{})
		f.setIntercept(func(op, key string) outcome { <-gates; return outcome{} })
		ask := func(ctx context.Context, n int) <-chan error {
			done := make(chan error, 1)
			go func() {
				r, err := c.AllowN(ctx, "k", limit, n)
				if err == nil && !r.Allowed {
					err = ErrLimited
				}
				done <- err
			}()
			synctest.Wait()
			return done
		}
		first := ask(t.Context(), 1)
		inLine, leaveLine := context.WithCancel(t.Context())
		inBatch, leaveBatch := context.WithCancel(t.Context())
		gone, flown, stays := ask(inLine, 2), ask(inBatch, 4), ask(t.Context(), 8)
		leaveLine()
		err := <-gone
		wantErr(t, err, context.Canceled)
		if errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("an ask that never flew: %v, want it to be known that nothing was taken", err)
		}
		gates <- struct{}{} // the first call ends, the two others begin
		synctest.Wait()
		leaveBatch()
		wantErr(t, <-flown, context.Canceled, ErrUnknownOutcome)
		gates <- struct{}{}
		for _, ch := range []<-chan error{first, stays} {
			if err := <-ch; err != nil {
				t.Error(err)
			}
		}
		f.setIntercept(nil)
		if n := left(t, c, "k", limit); n != 50-1-4-8 {
			t.Errorf("%d left of 50, want 37: the request that left the queue took nothing, the one that left the batch counts as spent", n)
		}
	})
}

// A call nobody waits for any more is ended.
func TestFlightEndsWhenAllHaveLeft(t *testing.T) {
	whileStuck(t, askTen, func(t *testing.T, s *stuck) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 3 {
			s.wg.Go(func() {
				_, err := s.Allow(ctx, "k", ten)
				wantErr(t, err, ErrUnavailable, context.DeadlineExceeded)
			})
		}
		synctest.Wait()
		hang := false
		s.f.setIntercept(func(op, key string) outcome { hang = true; return outcome{hang: true} })
		s.release()
		s.wg.Wait()
		synctest.Wait()
		if !hang || s.permits.Stats().Queues != 0 {
			t.Errorf("hung: %v; %d lines are left, want none: the call ends with its callers", hang, s.permits.Stats().Queues)
		}
	})
}

// stuckFor is how long requests wait for a call that does not return.
const stuckFor = 100 * time.Millisecond

// A call that does not return keeps others waiting for a moment only.
func TestStuckCallIsPassed(t *testing.T) {
	whileStuck(t, askTen, func(t *testing.T, s *stuck) {
		start := time.Now()
		for range 3 {
			s.wg.Go(func() {
				askTen(t, s.Client)
				if d := time.Since(start); d != stuckFor {
					t.Errorf("an ask behind a call that is stuck took %v, want %v", d, stuckFor)
				}
			})
		}
		time.Sleep(10 * stuckFor)
		s.release()
		s.wg.Wait()
		if len(s.f.batches) != 2 || s.permits.Stats().Queues != 0 {
			t.Errorf("batches %v, %d queues are left", s.f.batches, s.permits.Stats().Queues)
		}
	})
}

func TestPanicStrandsNobody(t *testing.T) {
	whileStuck(t, askTen, func(t *testing.T, s *stuck) {
		for range 3 {
			s.wg.Go(func() {
				_, err := s.Allow(t.Context(), "k", ten)
				wantErr(t, err, ErrUnknownOutcome)
				if err == nil || !strings.Contains(err.Error(), "panicked: out of cheese") {
					t.Errorf("%v: want the panic", err)
				}
			})
		}
		synctest.Wait()
		s.f.setIntercept(func(op, key string) outcome { panic("out of cheese") })
		s.release()
		s.wg.Wait()
		synctest.Wait()                          // until the call has ended
		_, err := s.Allow(t.Context(), "k", ten) // one that flies alone
		wantErr(t, err, ErrUnknownOutcome)
		s.f.setIntercept(nil)
		askTen(t, s.Client)
	})
}

func TestCloseEndsTheLine(t *testing.T) {
	whileStuck(t, askTen, func(t *testing.T, s *stuck) {
		s.wg.Go(func() {
			_, err := s.Allow(t.Context(), "k", ten)
			wantErr(t, err, ErrClosed)
		})
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		s.release()
		s.wg.Wait()
	})
}

// deafLimits answers no call until it is closed.
type deafLimits struct {
	*fakeLimits
	closing chan struct{}
}

func (f *deafLimits) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(f.Take(ctx, key, l, []driver.Ask{a}))
}

func (f *deafLimits) Take(ctx context.Context, _ string, _ driver.Limit, _ []driver.Ask) (driver.Taken, error) {
	select {
	case <-ctx.Done():
		return driver.Taken{}, ctx.Err()
	case <-f.closing:
		return driver.Taken{}, driver.ErrClosed
	}
}

func (f *deafLimits) Close() error {
	close(f.closing)
	return f.fakeLimits.Close()
}

// Close ends every request, however many are in the queue behind those under way.
func TestCloseEndsEveryAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &deafLimits{newFakeLimits(), make(chan struct{})}
		c, err := New(f)
		if err != nil {
			t.Fatal(err)
		}
		const asks = 4 * 256
		ended := make(chan error, asks)
		for range asks {
			go func() {
				_, err := c.Allow(context.Background(), "k", ten)
				ended <- err
			}()
		}
		synctest.Wait()
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n, took := len(ended), time.Since(start); n != asks || took > closeBound {
			t.Errorf("%d of %d have returned when Close has, after %v", n, asks, took)
		}
		for range len(ended) {
			wantErr(t, <-ended, ErrClosed)
		}
	})
}

// However asks travel, the sum is exact.
func TestManyCallersAreExact(t *testing.T) {
	f := newBatches()
	c := newTestClient(t, f)
	limit, granted := PerHour(1000), make([]int, 64)
	var wg sync.WaitGroup
	for i := range granted {
		wg.Go(func() {
			for n := range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if n%7 == 0 {
					cancel()
				}
				r, err := c.AllowN(ctx, "k", limit, 1)
				cancel()
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				granted[i] += r.Granted
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range granted {
		sum += n
	}
	if sum != 1000 || left(t, c, "k", limit) != 0 {
		t.Errorf("%d granted of 1000, %d left", sum, left(t, c, "k", limit))
	}
}
