package httpcoord

import (
	"context"
	"net/http"

	"github.com/coordgo/coord"
)

// Owner is middleware that gives each request a fresh owner, so that all locks taken under
// the request's context re-enter one another. Goroutines that the handler starts, and that take
// locks of their own, need owners of their own: start them with [coord.Go].
//
// [Locks] and [Idempotency] do so too, and what is wrapped in them shares the owner. Middleware of your own that takes
// locks before them shares it if Owner comes first: an owner that comes from elsewhere is replaced, because
// all requests may have it from the server's BaseContext.
func Owner(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(owned(r.Context())))
	})
}

// ownedKey is where a context has the server whose request has got its owner here.
type ownedKey struct{}

// owned gives a request an owner of its own, unless it has got one here.
func owned(ctx context.Context) context.Context {
	if isOwned(ctx) {
		return ctx
	}
	return context.WithValue(coord.WithOwner(ctx), ownedKey{}, mark{ctx.Value(http.ServerContextKey)})
}

// mark names a server; nil is none, as in a test.
type mark struct{ server any }

// isOwned reports whether the request has got its owner here. The request of a server that runs inside
// another one's handler has inherited that one's.
func isOwned(ctx context.Context) bool {
	m, ok := ctx.Value(ownedKey{}).(mark)
	return ok && m.server == ctx.Value(http.ServerContextKey)
}
