package coord

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// slowly makes every call take d.
func (f *fakeStore) slowly(d time.Duration) {
	f.setIntercept(func(op, key string) outcome { time.Sleep(d); return outcome{} })
}

// counted are the limits that waits are tested with.
var counted = map[string]func(rate int, per time.Duration) Limit{
	"sliding-window": Per,
	"fixed-window":   func(n int, d time.Duration) Limit { return Limit{Rate: n, Per: d, Algorithm: FixedWindow} },
	"token-bucket":   func(n int, d time.Duration) Limit { return Limit{Rate: n, Per: d, Burst: n} },
}

// One whose permits come too late fails alone: those behind it have theirs.
func TestHopelessWaitFailsAlone(t *testing.T) {
	for name, limitOf := range counted {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLimits()
				c, limit := newTestClient(t, f), limitOf(100, time.Minute)
				must[Result](t)(c.AllowN(t.Context(), "k", limit, 50))
				f.slowly(time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				var wg sync.WaitGroup
				wg.Go(func() { wantErr(t, c.WaitN(ctx, "k", limit, 100), ErrLimited, context.DeadlineExceeded) })
				synctest.Wait()
				for range 30 {
					wg.Go(func() { must[any](t)(nil, c.Wait(ctx, "k", limit)) })
				}
				start := time.Now()
				wg.Wait()
				if d := time.Since(start); d > time.Second {
					t.Errorf("it took %v: want the permits that were there", d)
				}
			})
		})
	}
}

// Waits go to the store together, and are served in the order in which they came.
func TestWaitsShareRequests(t *testing.T) {
	for name, limitOf := range counted {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))) // a window begins
				f := newFakeLimits()
				const rate, waiters = 150, 500
				c, limit := newTestClient(t, f), limitOf(rate, time.Minute)
				f.slowly(time.Millisecond)
				served := make([]time.Time, waiters)
				var wg sync.WaitGroup
				for i := range waiters {
					wg.Go(func() {
						must[any](t)(nil, c.Wait(t.Context(), "k", limit))
						served[i] = time.Now()
					})
					synctest.Wait() // one after the other, so that the order is known
				}
				time.Sleep(50 * time.Millisecond)
				if n := f.count("take"); n > 10 {
					t.Errorf("%d calls for those who can be served at once", n)
				}
				wg.Wait()
				for i := range waiters - 1 {
					if served[i+1].Before(served[i]) {
						t.Fatalf("waiter %d was served %v before waiter %d", i+1, served[i].Sub(served[i+1]), i)
					}
				}
			})
		})
	}
}

// However many permits waits are for, and whoever is cancelled, nobody is overtaken and the bound holds.
func TestWaitsKeepTheirOrder(t *testing.T) {
	for name, limitOf := range counted {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(100) {
				synctest.Test(t, func(t *testing.T) {
					random := rand.New(rand.NewPCG(seed, 1))
					m := waitModel{limit: limitOf(2+random.IntN(50), time.Second), trip: time.Duration(random.IntN(30)) * time.Millisecond}
					m.run(t, random)
					if t.Failed() {
						t.Log("seed", seed, "limit", m.limit, "round trip", m.trip)
					}
				})
				if t.Failed() {
					return
				}
			}
		})
	}
}

// waitModel is goroutines of one client that wait for permits of one limit.
type waitModel struct {
	limit Limit
	trip  time.Duration
}

func (m *waitModel) run(t *testing.T, random *rand.Rand) {
	f := newFakeLimits()
	f.slowly(m.trip)
	c := newTestClient(t, f)
	const waiters = 60
	all := make([]admission, waiters)
	var wg sync.WaitGroup
	for i := range waiters {
		n := 1
		if random.IntN(4) == 0 {
			n = 1 + random.IntN(m.limit.Rate)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if random.IntN(3) == 0 {
			time.AfterFunc(time.Duration(random.IntN(5000))*time.Millisecond, cancel)
		}
		wg.Go(func() {
			defer cancel()
			err := c.WaitN(ctx, "k", m.limit, n)
			if now := time.Now(); err == nil {
				all[i] = admission{now, now, n}
			} else if ctx.Err() == nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
	}
	wg.Wait()
	var last time.Time
	for i, a := range all {
		if a.n > 0 && a.got.Before(last) {
			t.Errorf("waiter %d was served %v before one that came earlier", i, last.Sub(a.got))
			return
		}
		if a.n > 0 {
			last = a.got
		}
	}
	if m.limit.Algorithm != SlidingWindow && m.trip > 0 {
		return // permits are used up to a round trip after they were counted
	}
	checkAdmitted(t, m.limit, m.trip, all)
}

// pausedStore is a limiter that can stand still: calls come to it meanwhile, and are made in
// their order once it goes on, whether their callers wait or not.
type pausedStore struct {
	*fakeLimits
	calls chan func()
}

func newPausedStore(t *testing.T) *pausedStore {
	f := &pausedStore{newFakeLimits(), make(chan func(), 1000)}
	go func() {
		for call := range f.calls {
			call()
		}
	}()
	t.Cleanup(func() { close(f.calls) })
	return f
}

// pause lets it stand still for d.
func (f *pausedStore) pause(d time.Duration) { f.calls <- func() { time.Sleep(d) } }

// called makes call in its turn, and waits for it until ctx ends.
func (f *pausedStore) called(ctx context.Context, call func(context.Context) error) error {
	done := make(chan error, 1)
	f.calls <- func() { done <- call(context.Background()) }
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *pausedStore) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(f.Take(ctx, key, l, []driver.Ask{a}))
}

func (f *pausedStore) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	answer := make(chan driver.Taken, 1)
	err := f.called(ctx, func(ctx context.Context) error {
		taken, err := f.fakeLimits.Take(ctx, key, l, asks)
		answer <- taken
		return err
	})
	if err != nil {
		return driver.Taken{}, err
	}
	return <-answer, nil
}

func (f *pausedStore) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	return f.called(ctx, func(ctx context.Context) error { return f.fakeLimits.Refund(ctx, key, l, id, n) })
}

// Permits of waits, and of a Reserve, that are cancelled while they ask are given back.
func TestCancelledAsksGiveBack(t *testing.T) {
	bucket := Limit{Rate: 10, Per: time.Second, Burst: 1}
	for name, ask := range map[string]func(context.Context, *Client) error{
		"wait": func(ctx context.Context, c *Client) error { return c.Wait(ctx, "k", bucket) },
		"reserve": func(ctx context.Context, c *Client) error {
			_, err := c.Reserve(ctx, "k", bucket, 1)
			return err
		},
	} {
		for _, asks := range []int{1, 2, 200} {
			t.Run(fmt.Sprint(name, " ", asks), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newPausedStore(t)
					c, other := newTestClient(t, f), newTestClient(t, f)
					must[Result](t)(c.Allow(t.Context(), "k", bucket))
					f.pause(time.Second)
					ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
					defer cancel()
					start := time.Now()
					var wg sync.WaitGroup
					for range asks {
						wg.Go(func() { wantErr(t, ask(ctx, c), context.DeadlineExceeded) })
					}
					wg.Wait()
					if d := time.Since(start); d > 600*time.Millisecond {
						t.Errorf("they ended %v after they had begun: want 500ms", d)
					}
					time.Sleep(time.Second)
					if r := must[Result](t)(other.Peek(t.Context(), "k", bucket)); !r.Allowed || r.ResetAfter > 0 {
						t.Errorf("%+v after %d takes and %d refunds: want what was reserved to be given back", r, f.count("take"), f.count("refund"))
					}
				})
			})
		}
	}
}

// A Reserve whose caller has gone gives back when the answer comes, in company too.
func TestReserveGivesBackWhenItLands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c := newTestClient(t, f)
		bucket := Limit{Rate: 10, Per: time.Second, Burst: 1}
		must[Result](t)(c.Allow(t.Context(), "k", bucket))
		f.slowly(time.Second)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				ctx, cancel := t.Context(), func() {}
				if i < 19 {
					ctx, cancel = context.WithTimeout(ctx, 500*time.Millisecond)
				}
				defer cancel()
				_, _ = c.Reserve(ctx, "k", bucket, 1)
			})
			synctest.Wait()
		}
		wg.Wait()
		f.setIntercept(nil)
		time.Sleep(time.Second)
		if n := f.count("refund"); n != 18 {
			t.Errorf("%d refunds: want one for each that has gone", n)
		}
	})
}

// A Wait whose caller has gone gives back when the answer comes, though others wait for the same answer.
func TestWaitGivesBackWhenItLands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c := newTestClient(t, f)
		bucket := Limit{Rate: 10, Per: time.Second, Burst: 1}
		must[Result](t)(c.Allow(t.Context(), "k", bucket))
		f.slowly(time.Second)
		var wg sync.WaitGroup
		for i := range 20 { // the first asks alone, and then one request asks for all others
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i > 1 {
					time.AfterFunc(1500*time.Millisecond, cancel)
				}
				if err := c.Wait(ctx, "k", bucket); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		time.Sleep(1900 * time.Millisecond)
		f.setIntercept(nil)
		wg.Wait()
		time.Sleep(200 * time.Millisecond)
		other := newTestClient(t, f)
		if r := must[Result](t)(other.Peek(t.Context(), "k", bucket)); r.ResetAfter > 500*time.Millisecond {
			t.Errorf("%+v after %d takes and %d refunds: want what was reserved to be given back", r, f.count("take"), f.count("refund"))
		}
	})
}

// Those behind a Wait that is cancelled go up: nobody waits for permits that nobody wants any more.
func TestWaitsGoUpWhenOthersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		f.slowly(time.Millisecond)
		c := newTestClient(t, f)
		bucket := Limit{Rate: 1, Per: time.Second, Burst: 1}
		must[Result](t)(c.Allow(t.Context(), "k", bucket))
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i < 15 {
					time.AfterFunc(1500*time.Millisecond, cancel)
				}
				if err := c.Wait(ctx, "k", bucket); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if d := time.Since(start); d > 8*time.Second {
			t.Errorf("the last of 5 who stayed waited %v, want 6s or so", d)
		}
	})
}

// Close gives back what waits have reserved, before it closes the store.
func TestCloseGivesReservationsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c, err := New(f)
		must[any](t)(nil, err)
		bucket := Limit{Rate: 10, Per: time.Minute, Burst: 10}
		must[Result](t)(c.AllowN(t.Context(), "k", bucket, 10))
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { wantErr(t, c.WaitN(t.Context(), "k", bucket, 10), ErrClosed) })
		}
		synctest.Wait()
		must[any](t)(nil, c.Close())
		wg.Wait()
		other := newTestClient(t, f)
		if r := must[Result](t)(other.Peek(t.Context(), "k", bucket)); r.ResetAfter > time.Minute {
			t.Errorf("%+v after Close: want what was reserved to be given back", r)
		}
	})
}

// In an outage the failure policy decides about every Wait, also about one that the store was never asked for.
func TestWaitsInAnOutage(t *testing.T) {
	for name, limitOf := range counted {
		for _, apart := range []time.Duration{0, 50 * time.Millisecond} {
			t.Run(fmt.Sprint(name, " ", apart), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, limit := newFakeLimits(), limitOf(100, time.Minute)
					f.setIntercept(func(string, string) outcome { return outcome{hang: true} })
					shut, openly := newTestClient(t, f), newTestClient(t, f, WithFailurePolicy(FailOpen))
					var unknown atomic.Int32
					var wg sync.WaitGroup
					for range 10 {
						wg.Go(func() {
							ctx, cancel := context.WithTimeout(t.Context(), time.Second)
							defer cancel()
							if err := openly.Wait(ctx, "k", limit); err != nil {
								t.Errorf("under FailOpen: %v", err)
							}
						})
						wg.Go(func() {
							ctx, cancel := context.WithTimeout(t.Context(), time.Second)
							defer cancel()
							err := shut.Wait(ctx, "k", limit)
							wantErr(t, err, ErrUnavailable, context.DeadlineExceeded)
							if errors.Is(err, ErrUnknownOutcome) {
								unknown.Add(1)
							}
						})
						time.Sleep(apart)
					}
					wg.Wait()
					if n := unknown.Load(); limit.Algorithm == TokenBucket && n != 1 { // a bucket asks for nobody while a refund is under way
						t.Errorf("%d outcomes are unknown: want that of the one that was sent", n)
					}
				})
			})
		}
	}
}

// One that comes while the store does not take back what another had reserved was told nothing either.
func TestWaitBehindARefundInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c, bucket := newTestClient(t, f, WithFailurePolicy(FailOpen)), Limit{Rate: 1, Per: time.Minute, Burst: 1}
		must[Result](t)(c.Allow(t.Context(), "k", bucket))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = c.Wait(ctx, "k", bucket) }()
		synctest.Wait() // it has reserved
		f.setIntercept(func(string, string) outcome { return outcome{hang: true} })
		cancel()
		synctest.Wait()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must[any](t)(nil, c.Wait(ctx, "k", bucket))
	})
}

// slowToWait is the context of a goroutine that is not scheduled for a moment before it waits.
type slowToWait struct{ context.Context }

func (c slowToWait) Done() <-chan struct{} {
	time.Sleep(time.Millisecond)
	return c.Context.Done()
}

// What a Wait is granted while the client closes is given back, however late its goroutine sees it.
func TestCloseGivesBackWhatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c, err := New(f)
		must[any](t)(nil, err)
		bucket := Limit{Rate: 10, Per: time.Minute, Burst: 10}
		must[Result](t)(c.AllowN(t.Context(), "k", bucket, 10))
		gate := make(chan struct{})
		f.setIntercept(func(op, _ string) outcome {
			if op == "take" {
				return outcome{late: gate}
			}
			return outcome{}
		})
		var wg sync.WaitGroup
		wg.Go(func() { wantErr(t, c.WaitN(slowToWait{t.Context()}, "k", bucket, 10), ErrClosed) })
		synctest.Wait() // it is granted, and its answer on the way
		wg.Go(func() { must[any](t)(nil, c.Close()) })
		synctest.Wait()
		close(gate)
		wg.Wait()
		if n := f.count("refund"); n != 1 {
			t.Errorf("%d refunds, want 1", n)
		}
	})
}
