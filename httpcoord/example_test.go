package httpcoord_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/rules"
)

func newClient() *coord.Client {
	client, err := coord.New(memory.New())
	if err != nil {
		panic(err)
	}
	return client
}

// send gives h one request.
func send(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func ExampleLimits() {
	client := newClient()
	defer client.Close()
	chain, err := rules.New(
		rules.Rule{Name: "health", Match: rules.Match{Path: "/healthz"}, Final: true},
		rules.Rule{Name: "per-address", Subject: rules.IP(), Limits: []rules.Limit{{Limit: coord.PerHour(2)}}},
	)
	if err != nil {
		panic(err)
	}
	service := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {})
	handler := httpcoord.Limits{Limiter: client, Rules: chain}.Wrap(service)

	for range 3 {
		w := send(handler, "GET", "/orders")
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"), w.Header().Get("Retry-After") != "")
	}
	fmt.Println(send(handler, "GET", "/healthz").Code)
	// Output:
	// 200 "per-address";q=2;w=3600 false
	// 200 "per-address";q=2;w=3600 false
	// 429 "per-address";q=2;w=3600 true
	// 200
}

func ExampleLocks() {
	client := newClient()
	defer client.Close()
	orders := httpcoord.Locks{
		Locker: client,
		Key:    func(r *http.Request) string { return coord.Key("order", r.PathValue("id")) },
	}
	var handler http.Handler
	handler = orders.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock, _ := coord.Held(r.Context(), coord.Key("order", r.PathValue("id")))
		fmt.Println("the token fences what is written:", lock.Token() > 0)
		if r.Header.Get("Again") == "" {
			// Meanwhile, another request for the same order.
			fmt.Println("another request:", send(handler, "POST", "/orders/7", "Again", "yes").Code)
		}
	}))
	fmt.Println("the first:", send(handler, "POST", "/orders/7").Code)
	// Output:
	// the token fences what is written: true
	// another request: 409
	// the first: 200
}

func ExampleIdempotency() {
	client := newClient()
	defer client.Close()
	created := 0
	guard := httpcoord.Idempotency{Store: client, Window: 24 * time.Hour}
	handler := guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		created++
		w.WriteHeader(http.StatusCreated)
	}))
	for range 3 {
		fmt.Println(send(handler, "POST", "/orders", "Idempotency-Key", `"8e03978e-40d5-43e8-bc93-6894a57f9324"`).Code)
	}
	fmt.Println("orders:", created)
	// Output:
	// 201
	// 409
	// 409
	// orders: 1
}

func ExampleProxies() {
	behind := httpcoord.Proxies{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Forwarded-For", "203.0.113.9, 198.51.100.7") // the first is what the client has made up

	r.RemoteAddr = "10.0.0.1:55555"
	fmt.Println("from the proxy:", behind.Of(r))
	r.RemoteAddr = "192.0.2.1:55555"
	fmt.Println("past the proxy:", behind.Of(r))
	// Output:
	// from the proxy: 198.51.100.7
	// past the proxy: 192.0.2.1
}

func ExampleTransport() {
	client := newClient()
	defer client.Close()
	supplier := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer supplier.Close()

	calls := &http.Client{Transport: &httpcoord.Transport{
		Base: supplier.Client().Transport, Limiter: client, Limit: coord.PerMinute(2), FailFast: true,
	}}
	for range 3 {
		resp, err := calls.Get(supplier.URL)
		if errors.Is(err, coord.ErrLimited) {
			fmt.Println("not sent")
			continue
		}
		if err != nil {
			panic(err)
		}
		fmt.Println(resp.StatusCode)
		resp.Body.Close()
	}
	// Output:
	// 200
	// 200
	// not sent
}

func ExampleFields() {
	chain, err := rules.New(rules.Rule{Name: "daily", Limits: []rules.Limit{{Limit: coord.PerHour(100)}}})
	if err != nil {
		panic(err)
	}
	client := newClient()
	defer client.Close()
	d, err := chain.Allow(context.Background(), client, &rules.Request{Method: "GET", Path: "/"})
	if err != nil {
		panic(err)
	}
	h := make(http.Header)
	httpcoord.Draft11.Write(h, &d)
	fmt.Println(h.Get("RateLimit-Policy"))
	// Output:
	// "daily";q=100;w=3600
}

func ExampleLive() {
	client := newClient()
	defer client.Close()
	current, err := rules.New(rules.Rule{Name: "all", Limits: []rules.Limit{{Limit: coord.PerHour(1)}}})
	if err != nil {
		panic(err)
	}
	live := httpcoord.Live(func() *rules.Chain { return current }) // in earnest: what a reload has stored atomically
	handler := httpcoord.Limits{Limiter: client, Rules: live}.Wrap(http.NotFoundHandler())
	fmt.Println(send(handler, "GET", "/").Code, send(handler, "GET", "/").Code)
	// Output:
	// 404 429
}
