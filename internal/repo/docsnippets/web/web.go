// Package web is the code of docs/http.md.
package web

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"google.golang.org/grpc"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/grpccoord"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/rules"
)

// newChain makes the rules of the service.
func newChain() (*rules.Chain, error) {
	return rules.New(
		rules.Rule{Name: "health", Match: rules.Match{Path: "/healthz"}, Final: true},
		rules.Rule{
			Name: "orders", Match: rules.Match{Methods: []string{"POST"}, Path: "/orders"}, Subject: rules.User(),
			Limits: []rules.Limit{{Limit: coord.PerSecond(5)}, {Name: "hourly", Limit: coord.PerHour(1000)}},
		},
		rules.Rule{Name: "addresses", Subject: rules.IP(), Limits: []rules.Limit{{Limit: coord.PerMinute(600)}}},
	)
}

// limited puts the limits before a service.
func limited(client *coord.Client, chain *rules.Chain, service http.Handler) http.Handler {
	limits := httpcoord.Limits{Limiter: client, Rules: chain, User: userOf}
	return authenticated(limits.Wrap(service))
}

// behindProxy is limited, behind a proxy of one's own.
func behindProxy(client *coord.Client, chain *rules.Chain) httpcoord.Limits {
	return httpcoord.Limits{
		Limiter: client,
		Rules:   chain,
		Proxies: httpcoord.Proxies{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.7.0/24")}},
	}
}

// payments are changed by one request of an order at a time.
func payments(client *coord.Client, db *database) http.Handler {
	key := func(r *http.Request) string { return coord.Key("order", r.PathValue("id")) }
	locks := httpcoord.Locks{Locker: client, Key: key, Wait: 2 * time.Second}
	return locks.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock, _ := coord.Held(r.Context(), key(r))
		if err := db.pay(r.Context(), r.PathValue("id"), lock.Token()); err != nil {
			http.Error(w, "not paid", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
}

// orders are created once for each Idempotency-Key.
func orders(client *coord.Client, create, lookUp http.Handler) http.Handler {
	guard := httpcoord.Idempotency{Store: client, Scope: userOf, Completed: lookUp}
	return guard.Wrap(create)
}

// supplierClient calls a supplier that allows 2000 requests a minute, from all machines.
func supplierClient(client *coord.Client) *http.Client {
	return &http.Client{Transport: &httpcoord.Transport{
		Limiter: client,
		Limit:   coord.PerMinute(2000),
		Key:     func(*http.Request) string { return "supplier" },
		Shared:  client,
	}}
}

// grpcServer limits calls by the rules of the chain.
func grpcServer(client *coord.Client, chain *rules.Chain) *grpc.Server {
	limits := grpccoord.Limits{Limiter: client, Rules: chain}
	return grpc.NewServer(grpc.ChainUnaryInterceptor(limits.Unary()), grpc.ChainStreamInterceptor(limits.Stream()))
}

// dialSupplier keeps to the limit of a service that is called by gRPC.
func dialSupplier(client *coord.Client, target string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	calls := grpccoord.Outgoing{Limiter: client, Limit: coord.PerMinute(2000), Shared: client}
	opts = append(opts, grpc.WithChainUnaryInterceptor(calls.Unary()), grpc.WithChainStreamInterceptor(calls.Stream()))
	return grpc.NewClient(target, opts...)
}

type userKey struct{}

// userOf is who the request is from, as authenticated has found.
func userOf(r *http.Request) string {
	user, _ := r.Context().Value(userKey{}).(string)
	return user
}

// authenticated stands for what finds the user in earnest.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	})
}

// database refuses what an older holder of the lock writes.
type database struct{ guard coord.Guard }

func (d *database) pay(_ context.Context, order string, token coord.Token) error {
	return d.guard.Check(order, token)
}

// perOrder limits each order of each user. chain has a rule by rules.Combine(rules.User(), rules.Func("order")).
func perOrder(client *coord.Client, chain *rules.Chain, mux *http.ServeMux, service http.Handler) {
	limits := httpcoord.Limits{Limiter: client, Rules: chain, User: userOf, Funcs: map[string]func(*http.Request) string{
		"order": func(r *http.Request) string { return r.PathValue("id") },
	}}
	mux.Handle("/orders/{id}", limits.Wrap(service))
}
