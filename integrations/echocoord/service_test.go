package echocoord

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/rules"
)

// service is one of orders.
func service(client *coord.Client, chain *rules.Chain, create func(context.Context) error, change func(ctx context.Context, id string) error) *echo.Echo {
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

// userOf stands for authentication, which a service has before its limits.
func userOf(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}

func orderKey(r *http.Request) string { return coord.Key("order", r.PathValue("id")) }
