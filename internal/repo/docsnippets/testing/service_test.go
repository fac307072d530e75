package service

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/coordtest"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/rules"
)

// service admits one request per hour.
func service(t *testing.T, client *coordtest.Client) http.Handler {
	chain, err := rules.New(rules.Rule{Name: "all", Limits: []rules.Limit{{Limit: coord.PerHour(1)}}})
	if err != nil {
		t.Fatal(err)
	}
	return httpcoord.Limits{Limiter: client, Rules: chain}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

// want sends a request.
func want(t *testing.T, service http.Handler, code int) {
	t.Helper()
	w := httptest.NewRecorder()
	service.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != code {
		t.Errorf("status %d, want %d", w.Code, code)
	}
}

func TestDenied(t *testing.T) {
	s := service(t, coordtest.New(t))
	want(t, s, http.StatusOK)
	want(t, s, http.StatusTooManyRequests)
}

func TestOutageUnderFailOpen(t *testing.T) {
	client := coordtest.New(t, coord.WithFailurePolicy(coord.FailOpen))
	s := service(t, client)
	client.Cut() // no call reaches the store
	want(t, s, http.StatusOK)
	want(t, s, http.StatusOK) // without the limit
	client.Heal()
	want(t, s, http.StatusOK)
	want(t, s, http.StatusTooManyRequests)
}

func TestOutageUnderFailClosed(t *testing.T) {
	client := coordtest.New(t)
	client.Cut()
	want(t, service(t, client), http.StatusServiceUnavailable)
}

func TestLostLock(t *testing.T) {
	client := coordtest.New(t)
	err := coord.Do(t.Context(), client, "tickets", func(ctx context.Context) error {
		client.Lose("tickets") // as if the store had dropped it
		<-ctx.Done()           // so the context of the work ends
		return nil
	})
	if !errors.Is(err, coord.ErrLost) {
		t.Errorf("got %v, want ErrLost", err)
	}
}
