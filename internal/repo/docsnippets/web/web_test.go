package web

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/coordtest"
	"github.com/coordgo/coord/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve gives h one request of ann's.
func serve(h http.Handler, method, path string, edit ...func(*http.Request)) int {
	r := httptest.NewRequest(method, path, nil)
	r.SetBasicAuth("ann", "secret")
	r.Header.Set("Idempotency-Key", `"6c8e1c7a"`)
	for _, e := range edit {
		e(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func want(t *testing.T, what string, codes []int, want ...int) {
	t.Helper()
	if len(codes) != len(want) {
		t.Fatalf("%s: %v: want %v", what, codes, want)
	}
	for i := range want {
		if codes[i] != want[i] {
			t.Fatalf("%s: %v: want %v", what, codes, want)
		}
	}
}

// The code of the page does what the page says.
func TestPage(t *testing.T) {
	c := coordtest.New(t)
	chain, err := newChain()
	if err != nil {
		t.Fatal(err)
	}
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

	h := limited(c.Client, chain, ok)
	var codes []int
	for range 6 {
		codes = append(codes, serve(h, "POST", "/orders"))
	}
	codes = append(codes, serve(h, "GET", "/orders"), serve(h, "POST", "/healthz"))
	want(t, "limits", codes, 200, 200, 200, 200, 200, 429, 200, 200)

	forwarded := func(r *http.Request) {
		r.RemoteAddr, r.Header = "10.0.7.1:1", http.Header{"X-Forwarded-For": {"198.51.100.7"}}
	}
	want(t, "proxy", []int{serve(behindProxy(c.Client, chain).Wrap(ok), "GET", "/", forwarded)}, 200)

	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/payment", payments(c.Client, new(database)))
	want(t, "locks", []int{serve(mux, "POST", "/orders/7/payment"), serve(mux, "POST", "/orders/7/payment")}, 204, 204)

	created := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	guarded := orders(c.Client, created, ok)
	want(t, "idempotency", []int{serve(guarded, "POST", "/orders"), serve(guarded, "POST", "/orders")}, 201, 200)
}

func TestPageCallsOthers(t *testing.T) {
	c := coordtest.New(t)
	supplier := httptest.NewServer(http.NotFoundHandler())
	defer supplier.Close()
	client := supplierClient(c.Client)
	resp, err := client.Get(supplier.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	client.CloseIdleConnections()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()

	chain, err := newChain()
	if err != nil {
		t.Fatal(err)
	}
	grpcServer(c.Client, chain).Stop()
	cc, err := dialSupplier(c.Client, "passthrough:///supplier", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	if err := cc.Close(); err != nil {
		t.Error(err)
	}
}

// Each order has limits of its own.
func TestPerOrder(t *testing.T) {
	c := coordtest.New(t)
	chain, err := rules.New(rules.Rule{
		Name: "orders", Subject: rules.Combine(rules.User(), rules.Func("order")), Limits: []rules.Limit{{Limit: coord.PerHour(1)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	perOrder(c.Client, chain, mux, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	h := authenticated(mux)
	want(t, "orders", []int{serve(h, "GET", "/orders/7"), serve(h, "GET", "/orders/8"), serve(h, "GET", "/orders/7")}, 200, 200, 429)
}
