package middleware

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/middleware/middlewaretest"
	"github.com/coordgo/coord/rules"
)

// stoppable is a store that may stop to answer, for some keys.
type stoppable struct {
	driver.Backend
	until func(key string) <-chan struct{} // nil: it answers
	asked atomic.Int64
}

func (s *stoppable) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	s.asked.Add(1)
	if until := s.until(key); until != nil {
		select {
		case <-until:
		case <-ctx.Done():
			return driver.Taken{}, ctx.Err()
		}
	}
	return s.Backend.Take(ctx, key, l, asks)
}

func (s *stoppable) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(s.Take(ctx, key, l, []driver.Ask{a}))
}

func (s *stoppable) Info() driver.Info {
	info := s.Backend.Info()
	info.Claims = info.Claims.Without(driver.AtomicMulti)
	return info
}

// breaker is one before a store that answers unless until says otherwise, with a limit of 1000 an hour for each user.
func breaker(t *testing.T, until func(string) <-chan struct{}, opts ...coord.Option) (*Breaker, *stoppable) {
	store := &stoppable{Backend: memory.New(), until: until}
	rule := rules.Rule{Name: "r", Subject: rules.User(), Limits: []rules.Limit{{Limit: coord.PerHour(1000)}}}
	return &Breaker{Rules: middlewaretest.Chain(t, rule), Limiter: middlewaretest.Over(t, store, opts...)}, store
}

// While the store does not answer, one request at a time waits for it, and the failure policy decides the others at
// once. When it answers again, it is asked about every request.
func TestBreaker(t *testing.T) {
	for name, policy := range map[string]coord.FailurePolicy{"open": coord.FailOpen, "closed": coord.FailClosed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const clients, outage = 50, time.Minute
				back := make(chan struct{})
				b, store := breaker(t, func(string) <-chan struct{} { return back }, coord.WithFailurePolicy(policy))
				var served, waited atomic.Int64
				var wg sync.WaitGroup
				ends := time.Now().Add(outage)
				for range clients {
					wg.Go(func() {
						for time.Now().Before(ends) {
							began := time.Now()
							d, err := b.Allow(t.Context(), &rules.Request{User: "u"})
							switch {
							case policy == coord.FailOpen && err == nil && d.Allowed && d.Degraded() != nil && d.Bounds[0].Result.Granted == 1:
							case policy == coord.FailClosed && errors.Is(err, coord.ErrUnavailable):
							default:
								t.Errorf("%+v, %v", d, err)
							}
							served.Add(1)
							if time.Since(began) > 0 {
								waited.Add(1)
							}
							time.Sleep(100 * time.Millisecond)
						}
					})
				}
				wg.Wait()
				if most := int64(clients + outage/DefaultTimeout); waited.Load() > most {
					t.Errorf("%d of %d requests waited: want %d at most", waited.Load(), served.Load(), most)
				}
				if least := int64(clients * (outage - 2*DefaultTimeout) / (110 * time.Millisecond)); served.Load() < least {
					t.Errorf("%d requests were served: want %d at least", served.Load(), least)
				}

				close(back)
				asked := store.asked.Load()
				for i := range 10 {
					if d, err := b.Allow(t.Context(), &rules.Request{User: "u"}); err != nil || !d.Allowed || d.Degraded() != nil {
						t.Errorf("request %d after the outage: %+v, %v", i, d, err)
					}
				}
				if n := store.asked.Load() - asked; n != 10 {
					t.Errorf("the store was asked for %d of 10 requests after the outage", n)
				}
			})
		})
	}
}

// The request that asks is answered when the store is back, and others are from then on: nobody waits out a pause.
func TestBreakerClosesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := make(chan struct{})
		b, _ := breaker(t, func(string) <-chan struct{} { return back })
		if _, err := b.Allow(t.Context(), &rules.Request{}); !errors.Is(err, coord.ErrUnavailable) {
			t.Fatal(err)
		}
		probe := make(chan error, 1)
		go func() {
			_, err := b.Allow(t.Context(), &rules.Request{})
			probe <- err
		}()
		synctest.Wait()
		if _, err := b.Allow(t.Context(), &rules.Request{}); !errors.Is(err, coord.ErrUnavailable) {
			t.Errorf("beside the one that asks: %v, want ErrUnavailable", err)
		}
		close(back)
		if err := <-probe; err != nil {
			t.Errorf("the one that asked: %v", err)
		}
		if _, err := b.Allow(t.Context(), &rules.Request{}); err != nil {
			t.Errorf("after it: %v", err)
		}
	})
}

// One silent server of a store is no outage of the others, nor is an error that costs no time, nor a caller who has
// gone.
func TestBreakerStaysClosed(t *testing.T) {
	hung := func(key string) <-chan struct{} {
		if strings.Contains(key, "hung") {
			return make(chan struct{})
		}
		return nil
	}
	stillAsked := func(t *testing.T, b *Breaker) {
		t.Helper()
		synctest.Wait()
		if b.outage.Load() != nil {
			t.Error("the circuit is open")
		}
	}
	t.Run("one server", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, _ := breaker(t, hung)
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					for range 10 {
						_, _ = b.Allow(t.Context(), &rules.Request{User: "hung"})
					}
				})
			}
			for range 100 {
				if d, err := b.Allow(t.Context(), &rules.Request{User: "fine"}); err != nil || !d.Allowed {
					t.Fatalf("%+v, %v", d, err)
				}
				time.Sleep(100 * time.Millisecond)
			}
			wg.Wait()
			stillAsked(t, b)
		})
	})
	t.Run("a caller who has gone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, _ := breaker(t, hung)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(DefaultTimeout-time.Millisecond, cancel)
			_, _ = b.Allow(ctx, &rules.Request{User: "hung"})
			ctx, cancel = context.WithTimeout(t.Context(), DefaultTimeout/10)
			defer cancel()
			_, _ = b.Allow(ctx, &rules.Request{User: "hung"})
			stillAsked(t, b)
		})
	})
	t.Run("refused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, _ := breaker(t, hung)
			b.Rules = failing{&coord.Error{Op: "allow", Err: coord.ErrUnavailable}}
			_, _ = b.Allow(t.Context(), &rules.Request{})
			stillAsked(t, b)
		})
	})
	t.Run("no bound", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, _ := breaker(t, hung)
			b.Timeout = -1
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, _ = b.Allow(ctx, &rules.Request{User: "hung"})
			stillAsked(t, b)
		})
	})
}

// failing rules end with an error; nil is a panic.
type failing struct{ err error }

func (f failing) Allow(context.Context, rules.Limiter, *rules.Request) (rules.Decision, error) {
	if f.err == nil {
		panic("no rules")
	}
	return rules.Decision{}, f.err
}

// A request for more than its limit is the caller's mistake though the circuit is open, and a panic of the one that
// asks leaves it to the next.
func TestBreakerWhileOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := make(chan struct{})
		b, _ := breaker(t, func(string) <-chan struct{} { return back }, coord.WithFailurePolicy(coord.FailOpen))
		if _, err := b.Allow(t.Context(), &rules.Request{}); err != nil {
			t.Fatal(err)
		}
		chain := b.Rules
		b.Rules = failing{}
		func() {
			defer func() { _ = recover() }()
			_, _ = b.Allow(t.Context(), &rules.Request{})
		}()
		b.Rules = chain

		var wg sync.WaitGroup
		wg.Go(func() { _, _ = b.Allow(t.Context(), &rules.Request{}) }) // asks
		synctest.Wait()
		two := middlewaretest.Chain(t, rules.Rule{Name: "r", Limits: []rules.Limit{{Limit: coord.PerHour(5)}, {Limit: coord.PerSecond(5)}}})
		b.Rules = two
		began := time.Now()
		if _, err := b.Allow(t.Context(), &rules.Request{N: 6}); !errors.Is(err, coord.ErrExceedsBurst) {
			t.Errorf("6 of 5: %v, want ErrExceedsBurst", err)
		}
		if d, err := b.Allow(t.Context(), &rules.Request{N: 5}); err != nil || !d.Allowed || len(d.Bounds) != 2 || d.Degraded() == nil {
			t.Errorf("several limits: %+v, %v", d, err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("they took %v", took)
		}
		wg.Wait()
		b.Rules = chain
		close(back)
		if d, err := b.Allow(t.Context(), &rules.Request{}); err != nil || d.Degraded() != nil {
			t.Errorf("after the outage: %+v, %v", d, err)
		}
	})
}

// While the circuit is open, each rule is decided as its own failure policy says, and the others as that of the client.
func TestBreakerOfPolicies(t *testing.T) {
	for name, client := range map[string]coord.FailurePolicy{"open": coord.FailOpen, "closed": coord.FailClosed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				never := make(chan struct{})
				store := &stoppable{Backend: memory.New(), until: func(string) <-chan struct{} { return never }}
				rule := func(name string, p *coord.FailurePolicy) rules.Rule {
					return rules.Rule{Name: name, Match: rules.Match{Path: "/" + name}, Limits: []rules.Limit{{Limit: coord.PerHour(9)}}, FailurePolicy: p}
				}
				b := &Breaker{
					Rules:   middlewaretest.Chain(t, rule("soft", new(coord.FailOpen)), rule("hard", new(coord.FailClosed)), rule("plain", nil)),
					Limiter: middlewaretest.Over(t, store, coord.WithFailurePolicy(client)),
				}
				admitted := map[string]bool{"/soft": true, "/hard": false, "/plain": client == coord.FailOpen}
				for _, opens := range []string{"/soft", "/hard", "/plain"} { // the request that finds out
					b.outage.Store(nil)
					if d, err := b.Allow(t.Context(), &rules.Request{Method: "GET", Path: opens}); d.Allowed != admitted[opens] {
						t.Errorf("%s: %+v, %v", opens, d, err)
					}
					b.probing.Store(true) // another request asks
					for path, want := range admitted {
						began := time.Now()
						if d, err := b.Allow(t.Context(), &rules.Request{Method: "GET", Path: path}); d.Allowed != want || time.Since(began) > 0 {
							t.Errorf("after %s: %s: %+v, %v, in %v: want %v", opens, path, d, err, time.Since(began), want)
						}
					}
					b.probing.Store(false)
				}
			})
		})
	}
}
