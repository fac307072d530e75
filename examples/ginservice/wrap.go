package ginservice

import (
	"io"
	"net/http"

	"github.com/gin-gonic/gin"
)

// Wrap makes gin's middleware of that of net/http. r.PathValue gives the parameters of the path.
func Wrap(m func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		own, served := c.Writer, false
		for _, p := range c.Params {
			c.Request.SetPathValue(p.Key, p.Value)
		}
		m(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			served = true
			c.Request, c.Writer = r, &writer{own, w}
			c.Next()
			if r.Context().Err() == nil { // gin sends a status without a body only after all middleware
				c.Writer.WriteHeaderNow()
			}
		})).ServeHTTP(own, c.Request)
		c.Writer = own
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
