package fibercoord

import (
	"context"
	"net/http"

	"github.com/gofiber/fiber/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/rules"
)

// service is one of orders.
func service(client *coord.Client, chain *rules.Chain, create func(context.Context) error, change func(ctx context.Context, id string) error) *fiber.App {
	limits := httpcoord.Limits{Limiter: client, Rules: chain, User: userOf}
	guard := httpcoord.Idempotency{Store: client, Scope: userOf}
	one := httpcoord.Locks{Locker: client, Key: orderKey}

	app := fiber.New()
	app.Use(Wrap(limits.Wrap))
	app.Post("/orders", Wrap(guard.Wrap), func(c fiber.Ctx) error {
		if err := create(c.Context()); err != nil {
			return fiber.NewError(http.StatusUnprocessableEntity)
		}
		return c.SendStatus(http.StatusCreated)
	})
	app.Put("/orders/:id", Wrap(one.Wrap), func(c fiber.Ctx) error {
		if err := change(c.Context(), c.Params("id")); err != nil { // after a loss the middleware answers
			return fiber.NewError(http.StatusUnprocessableEntity)
		}
		return c.SendStatus(http.StatusOK)
	})
	return app
}

// userOf stands for authentication, which a service has before its limits.
func userOf(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}

func orderKey(r *http.Request) string { return coord.Key("order", r.PathValue("id")) }
