// Package fibercoord lets fiber use the middleware of net/http that httpcoord has: limits, locks, and guards
// against double submits.
package fibercoord

import (
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v3"

	"github.com/coordgo/coord/integrations/internal/nethttp"
)

// Wrap makes fiber's middleware of that of net/http, such as the Wrap of httpcoord.Limits, Locks, Concurrent
// and Idempotency. It calls m once, and panics where m does. Use it for one route, a group or all; the
// handler that it returns is safe for concurrent use. fiber's adaptor.HTTPMiddleware does not do for locks:
// it runs the handler when the lock has been given back.
//
// m gets a copy of the request, with the parameters of the path by r.PathValue, and without the body. A
// request whose URL net/http does not take is answered with 400. While the handlers after it run, c.Context()
// is that of m: when a lock is lost, it ends with cause coord.ErrLost, and httpcoord.Locks answers with 503:
// what m answers replaces the answer of the handler, because fiber sends one only at the end. An error of a
// handler is answered inside of m, by the ErrorHandler of the app.
//
// fasthttp does not tell that a client has gone: a request keeps its lock until the handler returns.
//
// The context of the request that m gives to its next handler has to be made of the context that m got.
func Wrap(m func(http.Handler) http.Handler) fiber.Handler {
	through := nethttp.Once(m)
	return func(c fiber.Ctx) error {
		r, err := request(c)
		if err != nil {
			return fiber.ErrBadRequest
		}
		outer := c.Context()
		defer c.SetContext(outer)
		out := &writer{c: c, header: make(http.Header)}
		through(out, r, func(w http.ResponseWriter, r *http.Request) {
			out.sendFields()
			c.SetContext(r.Context())
			serve(c)
			if r.Context().Err() == nil {
				w.WriteHeader(c.Response().StatusCode()) // the middleware looks at it
			}
		})
		return nil
	}
}

// serve runs the handler, and answers its error, which fiber does only after all middleware.
func serve(c fiber.Ctx) {
	err := c.Next()
	if err != nil {
		err = c.App().ErrorHandler(c, err)
	}
	if err != nil {
		c.Status(http.StatusInternalServerError)
	}
}

// request is c's for middleware of net/http. All of it is copied: the memory of c serves another request
// afterwards, and a lock or an observer may still have the key then.
func request(c fiber.Ctx) (*http.Request, error) {
	uri := strings.Clone(c.OriginalURL())
	r, err := http.NewRequestWithContext(c.Context(), strings.Clone(c.Method()), uri, nil)
	if err != nil {
		return nil, err
	}
	r.RequestURI, r.Host, r.RemoteAddr = uri, string(c.Request().Host()), c.RequestCtx().RemoteAddr().String()
	for name, value := range c.Request().Header.All() {
		r.Header.Add(string(name), string(value))
	}
	for _, name := range c.Route().Params {
		r.SetPathValue(name, strings.Clone(c.Params(name)))
	}
	return r, nil
}

// writer is fiber's response as a ResponseWriter. What middleware writes replaces the body of the handler.
type writer struct {
	c       fiber.Ctx
	header  http.Header
	begun   bool // the status is set
	written bool
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	w.begun = true
	w.sendFields()
	w.c.Status(status)
}

func (w *writer) Write(b []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if !w.written {
		w.written = true
		w.c.Response().ResetBody()
	}
	w.c.Response().AppendBody(b)
	return len(b), nil
}

func (w *writer) sendFields() {
	for name, values := range w.header {
		w.c.Response().Header.Del(name)
		for _, v := range values {
			w.c.Response().Header.Add(name, v)
		}
	}
}
