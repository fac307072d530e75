// Package routertest checks a service of orders under any router: what coord's middleware answers, and what
// it does with the answers of handlers.
package routertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/coordtest"
	"github.com/coordgo/coord/rules"
)

// Service is made by the function under test. POST /orders calls create once for each Idempotency-Key; PUT
// /orders/{id} calls change under the lock coord.Key("order", id). An error is answered with 422.
type Service func(client *coord.Client, chain *rules.Chain, create func(context.Context) error,
	change func(ctx context.Context, id string) error) func(*http.Request) (*http.Response, error)

// Of is the Service of a router that is an http.Handler.
func Of[H http.Handler](router func(*coord.Client, *rules.Chain, func(context.Context) error, func(context.Context, string) error) H) Service {
	return func(client *coord.Client, chain *rules.Chain, create func(context.Context) error, change func(context.Context, string) error) func(*http.Request) (*http.Response, error) {
		h := router(client, chain, create, change)
		return func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Result(), nil
		}
	}
}

var errRefused = errors.New("refused by the application")

// Check runs all requests.
func Check(t *testing.T, service Service) {
	t.Helper()
	chain, err := rules.New(rules.Rule{Name: "users", Subject: rules.User(), Limits: []rules.Limit{{Limit: coord.PerHour(2)}}})
	if err != nil {
		t.Fatal(err)
	}
	store := memory.NewStore()
	client, other := coordtest.NewOn(t, store), coordtest.NewOn(t, store)
	var created int
	var fail error
	create := func(context.Context) error { created++; return fail }
	change := func(ctx context.Context, id string) error {
		lock, held := coord.Held(ctx, coord.Key("order", id))
		if !held || lock.Err() != nil {
			t.Errorf("order %s is changed without its lock", id)
		}
		if id == "lost" {
			client.Lose("order/lost")
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return nil
	}
	serve := service(client.Client, chain, create, change)
	user := 0
	ask := func(name, method, path string, status int, body string) *http.Response {
		t.Helper()
		if name == "" {
			user++
			name = fmt.Sprintf("user%03d", user) // of one length: a router that reuses memory would mix them up
		}
		r := httptest.NewRequest(method, path, nil)
		r.SetBasicAuth(name, "")
		r.Header.Set("Idempotency-Key", `"`+path+`"`)
		resp, err := serve(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status || !strings.Contains(string(text), body) {
			t.Errorf("%s %s: %d %q, %v: want %d %q", method, path, resp.StatusCode, text, err, status, body)
		}
		problem := resp.Header.Get("Content-Type") == "application/problem+json"
		if want := strings.HasPrefix(body, "{"); problem != want {
			t.Errorf("%s %s: %d is problem details: %v, want %v", method, path, status, problem, want)
		}
		wantFields(t, resp.Header, status == http.StatusTooManyRequests)
		return resp
	}

	// Each user has two requests, and the third is denied. Users are not mixed up.
	for range 50 {
		user++
		name := fmt.Sprintf("user%03d", user)
		ask(name, "PUT", "/orders/7", 200, "")
		ask(name, "PUT", "/orders/8", 200, "")
		if denied := ask(name, "PUT", "/orders/7", 429, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded"`); denied.Header.Get("Retry-After") == "" {
			t.Error("a denied request is not told when to try again")
		}
	}

	// A request for an order that another process works on.
	lock, err := other.TryLock(t.Context(), "order/9")
	if err != nil {
		t.Fatal(err)
	}
	ask("", "PUT", "/orders/9", 409, `{"title":"Conflict"`)
	if err := lock.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	ask("", "PUT", "/orders/9", 200, "")

	// A handler that loses its lock before it answers.
	ask("", "PUT", "/orders/lost", 503, `{"title":"Service Unavailable"`)

	// An order that is sent twice is created once. One that failed may be sent again.
	ask("ann", "POST", "/orders", 201, "")
	ask("ann", "POST", "/orders", 409, `{"title":"Conflict"`)
	fail = errRefused
	ask("bob", "POST", "/orders", 422, "")
	fail = nil
	ask("bob", "POST", "/orders", 201, "")
	if created != 3 {
		t.Errorf("create was called %d times, want 3", created)
	}
}

var policy, left = regexp.MustCompile(`^"users";q=2;w=3600$`), regexp.MustCompile(`^"users";r=([0-2])(;t=[0-9]+)?$`)

// wantFields checks the response fields: each is there once, and a denied request has no permit left.
func wantFields(t *testing.T, h http.Header, denied bool) {
	t.Helper()
	policies, limits := h.Values("RateLimit-Policy"), h.Values("RateLimit")
	if len(policies) != 1 || !policy.MatchString(policies[0]) {
		t.Errorf("RateLimit-Policy: %q: want one like %s", policies, policy)
	}
	if len(limits) != 1 || !left.MatchString(limits[0]) || denied && left.FindStringSubmatch(limits[0])[1] != "0" {
		t.Errorf("RateLimit: %q: want one like %s, with 0 if it is denied: %v", limits, left, denied)
	}
}
