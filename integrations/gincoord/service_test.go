package gincoord

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/rules"
)

// service is one of orders.
func service(client *coord.Client, chain *rules.Chain, create func(context.Context) error, change func(ctx context.Context, id string) error) *gin.Engine {
	limits := httpcoord.Limits{Limiter: client, Rules: chain, User: userOf}
	guard := httpcoord.Idempotency{Store: client, Scope: userOf}
	one := httpcoord.Locks{Locker: client, Key: orderKey}

	e := gin.New()
	e.Use(gin.Recovery(), Wrap(limits.Wrap))
	e.POST("/orders", Wrap(guard.Wrap), func(c *gin.Context) {
		if err := create(c.Request.Context()); err != nil {
			c.AbortWithStatus(http.StatusUnprocessableEntity)
			return
		}
		c.Status(http.StatusCreated)
	})
	e.PUT("/orders/:id", Wrap(one.Wrap), func(c *gin.Context) {
		ctx := c.Request.Context()
		if err := change(ctx, c.Param("id")); err != nil && ctx.Err() == nil { // after a loss the middleware answers
			c.AbortWithStatus(http.StatusUnprocessableEntity)
		}
	})
	return e
}

// userOf stands for authentication, which a service has before its limits.
func userOf(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}

func orderKey(r *http.Request) string { return coord.Key("order", r.PathValue("id")) }
