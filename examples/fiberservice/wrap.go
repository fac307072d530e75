package fiberservice

import (
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v3"
)

// Wrap makes fiber's middleware of that of net/http, which must not read the body. r.PathValue gives the parameters
// of the path. c.Context() in the handler is the context of the middleware.
func Wrap(m func(http.Handler) http.Handler) fiber.Handler {
	return func(c fiber.Ctx) error {
		r, err := request(c)
		if err != nil {
			return fiber.ErrBadRequest
		}
		outer := c.Context()
		defer c.SetContext(outer)
		out := &writer{c: c, header: make(http.Header)}
		m(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			out.sendFields()
			c.SetContext(r.Context())
			serve(c)
			if r.Context().Err() == nil {
				w.WriteHeader(c.Response().StatusCode()) // the middleware looks at it
			}
		})).ServeHTTP(out, r)
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

// request is c's for middleware of net/http. All of it is copied: the memory of c serves another request afterwards, and a
// lock or an observer may still have the key then.
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
	written bool
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	w.sendFields()
	w.c.Status(status)
}

func (w *writer) Write(b []byte) (int, error) {
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
