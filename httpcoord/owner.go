package httpcoord

import (
	"net/http"

	"github.com/coordgo/coord"
)

// Owner is middleware that gives each request a fresh owner, so that all locks taken under
// the request's context re-enter one another. Goroutines that the handler starts, and that take
// locks of their own, need owners of their own: start them with [coord.Go].
//
// A handler behind [Locks] or [Idempotency] has an owner while it runs there.
func Owner(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(coord.WithOwner(r.Context())))
	})
}
