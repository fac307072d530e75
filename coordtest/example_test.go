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
	"github.com/coordgo/coord/coordtest"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/rules"
)

// An application's own test: what does it do when its lock is lost?
func ExampleClient() {
	_ = func(t *testing.T) {
		client := coordtest.New(t)
		err := coord.Do(t.Context(), client, "invoices", func(ctx context.Context) error {
			client.Lose("invoices") // as if the store had dropped the hold
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, coord.ErrLost) {
			t.Errorf("%v: want ErrLost", err)
		}
	}
}

// Is a service that fails open served when its store is down?
func ExampleClient_Cut() {
	_ = func(t *testing.T) {
		client := coordtest.New(t, coord.WithFailurePolicy(coord.FailOpen))
		chain, err := rules.New(rules.Rule{Name: "all", Limits: []rules.Limit{{Limit: coord.PerHour(1)}}})
		if err != nil {
			t.Fatal(err)
		}
		service := httpcoord.Limits{Limiter: client, Rules: chain}.Wrap(http.NotFoundHandler())

		client.Cut() // nothing reaches the store
		for range 2 {
			w := httptest.NewRecorder()
			service.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			if w.Code != http.StatusNotFound {
				t.Errorf("status %d: want that of the service", w.Code)
			}
		}
	}
}

// The store is back: calls succeed.
func ExampleClient_Heal() {
	_ = func(t *testing.T) {
		client := coordtest.New(t)
		client.Cut()
		if _, err := client.TryLock(t.Context(), "invoices"); !errors.Is(err, coord.ErrUnavailable) {
			t.Errorf("%v: want ErrUnavailable", err)
		}
		client.Heal()
		lock, err := client.TryLock(t.Context(), "invoices")
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Unlock(t.Context())
	}
}

// A bubble of testing/synctest is the clock: a slow store, and an hour, take no time.
func ExampleClient_Delay() {
	_ = func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client := coordtest.New(t)
			client.Delay(2 * time.Second) // each call takes so long
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := client.Allow(ctx, "mail", coord.PerHour(1)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: want DeadlineExceeded", err)
			}

			client.Heal()
			for range 2 {
				if r, err := client.Allow(t.Context(), "mail", coord.PerHour(1)); err != nil || !r.Allowed {
					t.Errorf("%+v, %v", r, err)
				}
				time.Sleep(time.Hour) // the permit is back
			}
		})
	}
}
