package fibercoord_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gofiber/fiber/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/integrations/fibercoord"
	"github.com/coordgo/coord/rules"
)

// newRouter limits all requests, and serves one of an order at a time.
func newRouter(client *coord.Client, chain *rules.Chain) *fiber.App {
	limits := httpcoord.Limits{Limiter: client, Rules: chain}
	locks := httpcoord.Locks{Locker: client, Key: func(r *http.Request) string { return coord.Key("order", r.PathValue("id")) }}
	app := fiber.New()
	app.Use(fibercoord.Wrap(limits.Wrap))
	app.Put("/orders/:id", fibercoord.Wrap(locks.Wrap), func(c fiber.Ctx) error { return c.SendStatus(http.StatusNoContent) })
	return app
}

func ExampleWrap() {
	client, err := coord.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	chain, err := rules.New(rules.Rule{Name: "addresses", Subject: rules.IP(), Limits: []rules.Limit{{Limit: coord.PerHour(1)}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	router := newRouter(client, chain)
	for range 2 {
		resp, err := router.Test(httptest.NewRequest("PUT", "/orders/7", nil))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(resp.StatusCode)
	}
	// Output:
	// 204
	// 429
}
