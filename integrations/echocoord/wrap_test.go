package echocoord

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"go.uber.org/goleak"

	"github.com/coordgo/coord/internal/routertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestService(t *testing.T) { routertest.Check(t, routertest.Of(service)) }

// All requests of a route share one handler of the middleware, which may have state.
func TestMiddlewareIsMadeOnce(t *testing.T) {
	made := 0
	e := echo.New()
	e.Use(Wrap(func(next http.Handler) http.Handler { made++; return next }))
	e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	for range 2 {
		e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	if made != 1 {
		t.Errorf("the middleware was made %d times, want once", made)
	}
}

// The request has the context of the middleware inside of it, and its own one outside, where the response has
// the status that was sent.
func TestContextEndsWithTheMiddleware(t *testing.T) {
	over := errors.New("over")
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			if cerr := c.Request().Context().Err(); err != nil || cerr != nil || c.Response().Status != http.StatusConflict {
				t.Errorf("after the middleware: %v, %v, %d", err, cerr, c.Response().Status)
			}
			return err
		}
	}, Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithCancelCause(r.Context())
			cancel(over)
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}))
	e.GET("/", func(c echo.Context) error {
		if err := context.Cause(c.Request().Context()); !errors.Is(err, over) {
			t.Errorf("inside of the middleware: %v", err)
		}
		return echo.NewHTTPError(http.StatusConflict)
	})
	e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
}
