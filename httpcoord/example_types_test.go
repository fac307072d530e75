package httpcoord_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/rules"
)

// Rules may depend on more than a chain: here nobody is limited at night.
func ExampleRules() {
	client := newClient()
	defer client.Close()
	chain, err := rules.New(rules.Rule{Name: "all", Limits: []rules.Limit{{Limit: coord.PerHour(1)}}})
	if err != nil {
		panic(err)
	}
	night := true
	byDay := dayRules{chain, func() bool { return night }}
	handler := httpcoord.Limits{Limiter: client, Rules: byDay}.Wrap(http.NotFoundHandler())
	fmt.Println(send(handler, "GET", "/").Code, send(handler, "GET", "/").Code)
	night = false
	fmt.Println(send(handler, "GET", "/").Code, send(handler, "GET", "/").Code)
	// Output:
	// 404 404
	// 404 429
}

// dayRules apply while it is not night.
type dayRules struct {
	chain *rules.Chain
	night func() bool
}

func (d dayRules) Allow(ctx context.Context, limiter rules.Limiter, r *rules.Request) (rules.Decision, error) {
	if d.night() {
		return rules.Decision{Allowed: true}, nil
	}
	return d.chain.Allow(ctx, limiter, r)
}

// A client of coord is one; what it is asked can be watched.
func ExampleIdempotencyStore() {
	client := newClient()
	defer client.Close()
	guard := httpcoord.Idempotency{Store: asked{client}}
	handler := guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	fmt.Println(send(handler, "POST", "/orders", "Idempotency-Key", `"8e03978e"`).Code)
	// Output:
	// marks one key in 24h0m0s
	// 201
}

// asked reports marks.
type asked struct{ *coord.Client }

func (a asked) Allow(ctx context.Context, key string, limit coord.Limit) (coord.Result, error) {
	fmt.Println("marks one key in", limit.Per)
	return a.Client.Allow(ctx, key, limit)
}

// Machines that call one supplier share what it asks for: a *coord.Client is a PauseStore.
func ExamplePauseStore() {
	client := newClient()
	defer client.Close()
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer busy.Close()

	var shared httpcoord.PauseStore = client
	machine := func() *http.Client {
		return &http.Client{Transport: &httpcoord.Transport{
			Limiter: client, Limit: coord.PerMinute(2000), FailFast: true, Shared: shared,
		}}
	}
	resp, err := machine().Get(busy.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.StatusCode, resp.Body.Close())
	_, err = machine().Get(busy.URL) // another, which the supplier has told nothing
	fmt.Println("not sent:", errors.Is(err, coord.ErrLimited))
	// Output:
	// 429 <nil>
	// not sent: true
}

// At most two reports at a time over all machines, and one more that waits for a moment.
func ExampleConcurrent() {
	client := newClient()
	defer client.Close()
	limited := httpcoord.Concurrent{
		Semaphore:  client.Semaphore(2),
		Key:        func(*http.Request) string { return "reports" },
		Wait:       time.Second,
		MaxWaiting: 1,
	}
	handler := limited.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	fmt.Println(send(handler, "POST", "/reports").Code)
	// Output: 201
}
