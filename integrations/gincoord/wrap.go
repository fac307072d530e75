// Package gincoord lets gin use the middleware of net/http that httpcoord has: limits, locks, and guards
// against double submits.
package gincoord

import (
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/coordgo/coord/integrations/internal/nethttp"
)

// Wrap makes gin's middleware of that of net/http, such as the Wrap of httpcoord.Limits, Locks, Concurrent
// and Idempotency. It calls m once, and panics where m does. Use it for one route, a group or all; the
// handler that it returns is safe for concurrent use.
//
// r.PathValue gives m the parameters of the path. While the handlers after it run, c.Request and c.Writer are
// those of m: when a lock is lost, the context of c.Request ends with cause coord.ErrLost. If no handler has
// answered by then, m does: httpcoord.Locks with 503. When m answers without them, as to a request that is
// denied, c is aborted.
//
// The context of the request that m gives to its next handler has to be made of the context that m got.
func Wrap(m func(http.Handler) http.Handler) gin.HandlerFunc {
	serve := nethttp.Once(m)
	return func(c *gin.Context) {
		request, own, served := c.Request, c.Writer, false
		defer func() { c.Request, c.Writer = request, own }()
		for _, p := range c.Params {
			c.Request.SetPathValue(p.Key, p.Value)
		}
		serve(own, c.Request, func(w http.ResponseWriter, r *http.Request) {
			served = true
			c.Request, c.Writer = r, &writer{own, w}
			c.Next()
			if r.Context().Err() == nil { // gin sends a status without a body only after all middleware
				c.Writer.WriteHeaderNow()
			}
		})
		if !served {
			c.Abort()
		}
	}
}

// writer sends what a handler answers through the writer of the middleware, which looks at it.
type writer struct {
	gin.ResponseWriter
	out http.ResponseWriter
}

func (w *writer) WriteHeaderNow() {
	if !w.Written() {
		w.out.WriteHeader(w.Status())
		w.ResponseWriter.WriteHeaderNow()
	}
}

func (w *writer) Write(b []byte) (int, error) {
	w.WriteHeaderNow()
	return w.out.Write(b)
}

func (w *writer) WriteString(s string) (int, error) {
	w.WriteHeaderNow()
	return io.WriteString(w.out, s)
}

func (w *writer) Flush() {
	w.WriteHeaderNow()
	w.ResponseWriter.Flush()
}
