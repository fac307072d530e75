package gincoord

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/coordgo/coord/internal/routertest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	goleak.VerifyTestMain(m)
}

func TestService(t *testing.T) { routertest.Check(t, routertest.Of(service)) }

// All requests of a route share one handler of the middleware, which may have state.
func TestMiddlewareIsMadeOnce(t *testing.T) {
	made := 0
	e := gin.New()
	e.Use(Wrap(func(next http.Handler) http.Handler { made++; return next }))
	e.GET("/", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	for range 2 {
		e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	if made != 1 {
		t.Errorf("the middleware was made %d times, want once", made)
	}
}

// The request has the context of the middleware inside of it, and its own one outside.
func TestContextEndsWithTheMiddleware(t *testing.T) {
	over := errors.New("over")
	e := gin.New()
	e.Use(func(c *gin.Context) {
		c.Next()
		if err := c.Request.Context().Err(); err != nil {
			t.Errorf("after the middleware: %v", err)
		}
	}, Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithCancelCause(r.Context())
			cancel(over)
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}))
	e.GET("/", func(c *gin.Context) {
		if err := context.Cause(c.Request.Context()); !errors.Is(err, over) {
			t.Errorf("inside of the middleware: %v", err)
		}
	})
	e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
}
