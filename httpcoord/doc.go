// Package httpcoord brings coord's locks and limits to net/http: middleware that any
// router takes, because each is a func(http.Handler) http.Handler, and a Transport for
// requests to others.
//
//		limits := httpcoord.Limits{Limiter: client, Rules: chain}
//		orders := httpcoord.Locks{Locker: client, Key: func(r *http.Request) string { return coord.Key("order", r.PathValue("id")) }}
//		mux.Handle("POST /orders/{id}", orders.Wrap(handler))
//		http.ListenAndServe(addr, limits.Wrap(mux))
//
//	  - [Limits] admits requests as rules allow, and tells clients what is left: RateLimit-Policy,
//	    RateLimit, Retry-After, 429 as problem details (RFC 9457).
//	  - [Locks] serves one request of a key at a time, over all machines.
//	  - [Idempotency] guards against double submits.
//	  - [Proxies] finds a client's address behind proxies that are trusted, and no others.
//	  - [Transport] keeps to the limits of a service that is called.
//
// Middleware that limits by user stands behind the one that authenticates. Handlers behind Locks and
// Idempotency get a ResponseWriter that is an http.Flusher, an http.Hijacker and an io.ReaderFrom, and whatever else theirs
// is through http.ResponseController.
package httpcoord
