// Package echocoord lets echo use the middleware of net/http that httpcoord has: limits, locks, and guards
// against double submits.
package echocoord

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/coordgo/coord/integrations/internal/nethttp"
)

// Wrap makes echo's middleware of that of net/http, such as the Wrap of httpcoord.Limits, Locks, Concurrent
// and Idempotency. It calls m once, and panics where m does. Use it for one route, a group or all; the
// middleware that it returns is safe for concurrent use.
//
// It does more than echo.WrapMiddleware, which calls m for each request: m sees the answer to an error, which
// echo gives only after all middleware, and r.PathValue gives it the parameters of the path.
//
// While the handler runs, c.Request() and c.Response() are those of m: when a lock is lost, the context of
// c.Request() ends with cause coord.ErrLost. A handler that returns nil then, and has not answered, leaves
// the answer to m: httpcoord.Locks answers with 503. Middleware of echo outside of Wrap gets no error of the
// handler: it has been answered.
//
// The context of the request that m gives to its next handler has to be made of the context that m got.
func Wrap(m func(http.Handler) http.Handler) echo.MiddlewareFunc {
	serve := nethttp.Once(m)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			request, response := c.Request(), c.Response()
			defer func() {
				c.SetRequest(request)
				c.SetResponse(response)
			}()
			for i, name := range c.ParamNames() {
				request.SetPathValue(name, c.ParamValues()[i])
			}
			serve(response, request, func(w http.ResponseWriter, r *http.Request) {
				c.SetRequest(r)
				c.SetResponse(echo.NewResponse(w, c.Echo()))
				if err := next(c); err != nil {
					c.Error(err)
				}
			})
			return nil
		}
	}
}
