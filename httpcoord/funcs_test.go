package httpcoord_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/coordtest"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/rules"
)

// A variable of the path has limits of its own, however the path is spelled.
func TestFuncOfPathValue(t *testing.T) {
	client := coordtest.New(t)
	chain, err := rules.New(rules.Rule{Name: "orders", Subject: rules.Func("order"), Limits: []rules.Limit{{Limit: coord.PerHour(1)}}})
	if err != nil {
		t.Fatal(err)
	}
	limits := httpcoord.Limits{
		Limiter: client, Rules: chain,
		Funcs: map[string]func(*http.Request) string{"order": func(r *http.Request) string { return r.PathValue("id") }},
	}
	mux := http.NewServeMux()
	mux.Handle("/orders/{id}", limits.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	for _, tc := range []struct {
		path string
		code int
	}{{"/orders/7", 200}, {"/orders/8", 200}, {"/orders/7", 429}, {"/orders/%37", 429}} {
		if w := send(mux, "GET", tc.path); w.Code != tc.code {
			t.Errorf("%s: %d: want %d", tc.path, w.Code, tc.code)
		}
	}
	limits.Funcs = nil
	if w := send(limits.Wrap(mux), "GET", "/orders/9"); w.Code != http.StatusInternalServerError {
		t.Errorf("without the function: %d: want 500", w.Code)
	}
}

// Without User, requests that are counted by user do not all share one account.
func TestUserThatIsNotLookedUp(t *testing.T) {
	for name, subject := range map[string]rules.Subject{"user": rules.User(), "combined": rules.Combine(rules.IP(), rules.User())} {
		chain, err := rules.New(rules.Rule{Name: "orders", Subject: subject, Limits: []rules.Limit{{Limit: coord.PerHour(1)}}})
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		limits := httpcoord.Limits{Limiter: coordtest.New(t), Rules: chain, Log: slog.New(slog.NewTextHandler(&log, nil))}
		served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		if w := send(limits.Wrap(served), "GET", "/"); w.Code != http.StatusInternalServerError || !strings.Contains(log.String(), "set User") {
			t.Errorf("%s, without User: %d: want 500, and a log that says what to set:\n%s", name, w.Code, &log)
		}
		limits.User = func(*http.Request) string { return "" }
		handler := limits.Wrap(served)
		for _, want := range []int{200, 429} { // those whom nobody knows count together
			if w := send(handler, "GET", "/"); w.Code != want {
				t.Errorf("%s, of nobody: %d: want %d", name, w.Code, want)
			}
		}
	}
}
