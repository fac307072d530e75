package chiservice

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/rules"
)

// Router is a service of orders: every client's requests are limited, an order is changed by
// one request at a time, and none is made twice.
func Router(client *coord.Client, chain *rules.Chain) http.Handler {
	limits := httpcoord.Limits{Limiter: client, Rules: chain}
	guard := httpcoord.Idempotency{Store: client}
	one := httpcoord.Locks{Locker: client, Key: func(r *http.Request) string { return orderKey(r) }}

	r := chi.NewRouter()
	r.Use(limits.Wrap)
	r.With(guard.Wrap).Post("/orders", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	r.With(one.Wrap).Put("/orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		lock, held := coord.Held(r.Context(), orderKey(r))
		if !held {
			http.Error(w, "not locked", http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "changed under", lock.Key())
	})
	return r
}

func orderKey(r *http.Request) string { return coord.Key("order", chi.URLParam(r, "id")) }
