package fiberservice

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/gofiber/fiber/v3"
	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/examples/internal/routertest"
	"github.com/coordgo/coord/rules"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1")) // it never ends
}

func TestRouter(t *testing.T) {
	routertest.Check(t, func(client *coord.Client, chain *rules.Chain, create func(context.Context) error,
		change func(context.Context, string) error,
	) func(*http.Request) (*http.Response, error) {
		app := Router(client, chain, create, change)
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
