// Package chiservice shows coord's middleware under chi: limits by user, one request of an order at a time, and no order twice.
//
// Nothing is needed for it: chi takes any func(http.Handler) http.Handler.
package chiservice

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/rules"
)

// Router is a service of orders.
func Router(client *coord.Client, chain *rules.Chain, create func(context.Context) error, change func(ctx context.Context, id string) error) http.Handler {
	limits := httpcoord.Limits{Limiter: client, Rules: chain, User: userOf}
	guard := httpcoord.Idempotency{Store: client, Scope: userOf}
	one := httpcoord.Locks{Locker: client, Key: orderKey}

	r := chi.NewRouter()
	r.Use(limits.Wrap)
	r.With(guard.Wrap).Post("/orders", func(w http.ResponseWriter, r *http.Request) {
		if err := create(r.Context()); err != nil {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	r.With(one.Wrap).Put("/orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		if err := change(r.Context(), chi.URLParam(r, "id")); err != nil && r.Context().Err() == nil { // after a loss the middleware answers
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	})
	return r
}

// userOf stands for authentication, which a service has before its limits.
func userOf(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}

func orderKey(r *http.Request) string { return coord.Key("order", chi.URLParam(r, "id")) }
