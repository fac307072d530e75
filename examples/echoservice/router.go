// Package echoservice shows coord's middleware under echo: limits by user, one request of an order at a time, and no order
// twice.
package echoservice

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/rules"
)

// Router is a service of orders.
func Router(client *coord.Client, chain *rules.Chain, create func(context.Context) error, change func(ctx context.Context, id string) error) *echo.Echo {
	limits := httpcoord.Limits{Limiter: client, Rules: chain, User: userOf}
	guard := httpcoord.Idempotency{Store: client, Scope: userOf}
	one := httpcoord.Locks{Locker: client, Key: orderKey}

	e := echo.New()
	e.Use(Wrap(limits.Wrap))
	e.POST("/orders", func(c echo.Context) error {
		if err := create(c.Request().Context()); err != nil {
			return echo.NewHTTPError(http.StatusUnprocessableEntity)
		}
		return c.NoContent(http.StatusCreated)
	}, Wrap(guard.Wrap))
	e.PUT("/orders/:id", func(c echo.Context) error {
		ctx := c.Request().Context()
		if err := change(ctx, c.Param("id")); err != nil {
			if ctx.Err() != nil {
				return nil // the lock was lost: no answer, so that the middleware gives its own
			}
			return echo.NewHTTPError(http.StatusUnprocessableEntity)
		}
		return c.NoContent(http.StatusOK)
	}, Wrap(one.Wrap))
	return e
}

// Wrap makes echo's middleware of that of net/http, as echo.WrapMiddleware does, and more: the middleware sees the answer
// to an error, which echo gives only after all middleware, and r.PathValue gives the parameters of the path.
func Wrap(m func(http.Handler) http.Handler) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		wrapped := echo.WrapMiddleware(m)(func(c echo.Context) error {
			if err := next(c); err != nil {
				c.Error(err)
			}
			return nil
		})
		return func(c echo.Context) error {
			for i, name := range c.ParamNames() {
				c.Request().SetPathValue(name, c.ParamValues()[i])
			}
			return wrapped(c)
		}
	}
}

// userOf stands for authentication, which a service has before its limits.
func userOf(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}

func orderKey(r *http.Request) string { return coord.Key("order", r.PathValue("id")) }
