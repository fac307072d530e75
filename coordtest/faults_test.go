package coordtest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/coordtest"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/rules"
)

// Every call of a client that cannot reach its store says so.
func TestCut(t *testing.T) {
	client := coordtest.New(t)
	limit := coord.PerHour(1)
	calls := map[string]func(context.Context) error{
		"TryLock": func(ctx context.Context) error { _, err := client.TryLock(ctx, "k"); return err },
		"Allow":   func(ctx context.Context) error { _, err := client.Allow(ctx, "k", limit); return err },
		"AllowAll": func(ctx context.Context) error {
			_, err := client.AllowAll(ctx, coord.Demand{Key: "a", Limit: limit, N: 1}, coord.Demand{Key: "b", Limit: limit, N: 1})
			return err
		},
		"Peek":   func(ctx context.Context) error { _, err := client.Peek(ctx, "k", limit); return err },
		"Reset":  func(ctx context.Context) error { return client.Reset(ctx, "k", limit) },
		"Charge": func(ctx context.Context) error { _, err := client.Charge(ctx, "k", limit, 1); return err },
		"Reserve": func(ctx context.Context) error {
			_, err := client.Reserve(ctx, "k", coord.Limit{Rate: 1, Per: time.Hour, Burst: 1}, 1)
			return err
		},
		"Inspect": func(ctx context.Context) error { _, err := client.Inspect(ctx, "k"); return err },
		"Ping":    client.Ping,
		"List": func(ctx context.Context) error {
			for _, err := range client.List(ctx, "") {
				return err
			}
			return nil
		},
	}
	client.Cut()
	for name, call := range calls {
		if err := call(t.Context()); !errors.Is(err, coord.ErrUnavailable) {
			t.Errorf("%s: %v: want ErrUnavailable", name, err)
		}
	}
	client.Heal()
	if r, err := client.Allow(t.Context(), "k", limit); err != nil || !r.Allowed {
		t.Errorf("after Heal: %+v, %v", r, err)
	}
}

// Lock goes on over an outage, as with every store, and is granted afterwards.
func TestCutEndsWaitsAtTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		a, b := coordtest.NewOn(t, store), coordtest.NewOn(t, store)
		first, err := a.Lock(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got := make(chan error, 1)
		go func() {
			second, err := b.Lock(ctx, "k")
			if err == nil {
				err = second.Unlock(ctx)
			}
			got <- err
		}()
		synctest.Wait() // b waits at the store
		b.Cut()
		synctest.Wait()
		b.Heal()
		if err := first.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-got; err != nil && !errors.Is(err, coord.ErrUnavailable) {
			t.Errorf("the waiter: %v", err)
		}
	})
}

// A holder that cannot renew loses its lock when the TTL has passed; another client gets it.
func TestCutLosesLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		a, b := coordtest.NewOn(t, store), coordtest.NewOn(t, store)
		l, err := a.Lock(t.Context(), "k", coord.TTL(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		a.Cut()
		<-l.Done()
		if err := l.Err(); !errors.Is(err, coord.ErrLost) {
			t.Errorf("Err: %v: want ErrLost", err)
		}
		next, err := b.Lock(t.Context(), "k")
		if err != nil {
			t.Fatalf("the other client: %v", err)
		}
		if err := next.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Lose works during a Cut: it is the test that reaches the store.
func TestLoseDuringCut(t *testing.T) {
	client := coordtest.New(t)
	l, err := client.Lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	client.Cut()
	client.Lose("k")
	if err := l.Err(); !errors.Is(err, coord.ErrLost) {
		t.Errorf("Err: %v: want ErrLost", err)
	}
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := coordtest.New(t)
		client.Delay(3 * time.Second)
		began := time.Now()
		if r, err := client.Allow(t.Context(), "k", coord.PerHour(2)); err != nil || !r.Allowed {
			t.Errorf("%+v, %v", r, err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("the call took %v: want 3s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := client.Allow(ctx, "k", coord.PerHour(2)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v: want DeadlineExceeded", err)
		}
		client.Heal()
		if r, err := client.Allow(t.Context(), "k", coord.PerHour(2)); err != nil || !r.Allowed {
			t.Errorf("the call that ended before the store has used a permit: %+v, %v", r, err)
		}
	})
}

// A store that hangs costs a request the middleware's time-out, and then the policy decides.
func TestDelayUnderFailurePolicies(t *testing.T) {
	for policy, want := range map[coord.FailurePolicy]int{coord.FailOpen: http.StatusOK, coord.FailClosed: http.StatusServiceUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			client := coordtest.New(t, coord.WithFailurePolicy(policy))
			chain, err := rules.New(rules.Rule{Name: "all", Limits: []rules.Limit{{Limit: coord.PerHour(1)}}})
			if err != nil {
				t.Fatal(err)
			}
			h := httpcoord.Limits{Limiter: client, Rules: chain}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			client.Delay(time.Hour)
			began := time.Now()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			if w.Code != want {
				t.Errorf("status %d: want %d", w.Code, want)
			}
			if took := time.Since(began); took != httpcoord.DefaultTimeout {
				t.Errorf("the request took %v", took)
			}
		})
	}
}
