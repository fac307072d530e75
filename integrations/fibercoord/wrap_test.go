package fibercoord

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/gofiber/fiber/v3"
	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/routertest"
	"github.com/coordgo/coord/rules"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1")) // it never ends
}

func TestService(t *testing.T) {
	routertest.Check(t, func(client *coord.Client, chain *rules.Chain, create func(context.Context) error,
		change func(context.Context, string) error,
	) func(*http.Request) (*http.Response, error) {
		app := service(client, chain, create, change)
		return func(r *http.Request) (*http.Response, error) { return app.Test(r) }
	})
}

// What middleware keeps of a request stays as it was when fasthttp serves others from the same memory.
func TestRequestsAreCopied(t *testing.T) {
	var kept []*http.Request
	app := fiber.New()
	app.Get("/orders/:id", Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			kept = append(kept, r)
			next.ServeHTTP(w, r)
		})
	}), func(c fiber.Ctx) error { return c.SendStatus(http.StatusOK) })
	for i := range 20 {
		r := httptest.NewRequest("GET", fmt.Sprintf("/orders/%02d", i), nil)
		r.Header.Add("X-Order", fmt.Sprint("first ", i))
		r.Header.Add("X-Order", fmt.Sprint("second ", i))
		resp, err := app.Test(r)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
	}
	for i, r := range kept {
		id := fmt.Sprintf("%02d", i)
		if order := r.Header.Values("X-Order"); r.URL.Path != "/orders/"+id || r.PathValue("id") != id ||
			!slices.Equal(order, []string{fmt.Sprint("first ", i), fmt.Sprint("second ", i)}) {
			t.Errorf("request %d has become %s, %s, %q", i, r.URL.Path, r.PathValue("id"), order)
		}
	}
}

// All requests of a route share one handler of the middleware, which may have state.
func TestMiddlewareIsMadeOnce(t *testing.T) {
	made := 0
	app := fiber.New()
	app.Use(Wrap(func(next http.Handler) http.Handler { made++; return next }))
	app.Get("/", func(c fiber.Ctx) error { return c.SendStatus(http.StatusNoContent) })
	for range 2 {
		if resp, err := app.Test(httptest.NewRequest("GET", "/", nil)); err != nil || resp.StatusCode != http.StatusNoContent {
			t.Fatal(resp, err)
		}
	}
	if made != 1 {
		t.Errorf("the middleware was made %d times, want once", made)
	}
}

// The request has the context of the middleware inside of it, and its own one outside.
func TestContextEndsWithTheMiddleware(t *testing.T) {
	over := errors.New("over")
	app := fiber.New()
	app.Use(func(c fiber.Ctx) error {
		err := c.Next()
		if cerr := c.Context().Err(); cerr != nil {
			t.Errorf("after the middleware: %v", cerr)
		}
		return err
	}, Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithCancelCause(r.Context())
			cancel(over)
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}))
	app.Get("/", func(c fiber.Ctx) error {
		if err := context.Cause(c.Context()); !errors.Is(err, over) {
			t.Errorf("inside of the middleware: %v", err)
		}
		return nil
	})
	if _, err := app.Test(httptest.NewRequest("GET", "/", nil)); err != nil {
		t.Error(err)
	}
}

// Middleware may write without WriteHeader, as to net/http.
func TestMiddlewareAnswers(t *testing.T) {
	app := fiber.New()
	app.Use(Wrap(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-From", "middleware")
			io.WriteString(w, "closed")
		})
	}))
	resp, err := app.Test(httptest.NewRequest("GET", "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("X-From") != "middleware" || string(body) != "closed" {
		t.Errorf("%d %q from %q, %v", resp.StatusCode, body, resp.Header.Get("X-From"), err)
	}
}
