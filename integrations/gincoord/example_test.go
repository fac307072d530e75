package gincoord_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/integrations/gincoord"
	"github.com/coordgo/coord/rules"
)

// newRouter limits all requests, and serves one of an order at a time.
func newRouter(client *coord.Client, chain *rules.Chain) *gin.Engine {
	limits := httpcoord.Limits{Limiter: client, Rules: chain}
	locks := httpcoord.Locks{Locker: client, Key: func(r *http.Request) string { return coord.Key("order", r.PathValue("id")) }}
	e := gin.New()
	e.Use(gincoord.Wrap(limits.Wrap))
	e.PUT("/orders/:id", gincoord.Wrap(locks.Wrap), func(c *gin.Context) { c.Status(http.StatusNoContent) })
	return e
}

func ExampleWrap() {
	gin.SetMode(gin.ReleaseMode)
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
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest("PUT", "/orders/7", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// 204
	// 429
}
