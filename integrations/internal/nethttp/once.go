// Package nethttp makes the handler of net/http middleware once, for routers that know the next handler only
// when a request comes. The handler has state, such as the circuit breaker of httpcoord.Limits, which all
// requests of a route share.
package nethttp

import (
	"context"
	"net/http"
)

type nextKey struct{}

// Once calls m once. The function that it returns serves a request through m's handler, which calls next. The
// context of m's request has to be one of r's.
func Once(m func(http.Handler) http.Handler) func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	h := m(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(nextKey{}).(http.HandlerFunc)(w, r)
	}))
	return func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), nextKey{}, next)))
	}
}
