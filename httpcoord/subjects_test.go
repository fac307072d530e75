package httpcoord

import (
	"net/http"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/middleware/middlewaretest"
	"github.com/coordgo/coord/rules"
)

// A cookie is the one that a handler gets by Request.Cookie, wherever it stands among the headers.
func TestLimitsByCookie(t *testing.T) {
	limits := Limits{Limiter: middlewaretest.Client(t), Rules: middlewaretest.Chain(t, one("a", rules.Cookie("session"), coord.PerHour(1)))}
	h := limits.Wrap(ok)
	for _, tc := range []struct {
		headers []string
		status  int
	}{
		{[]string{"session=1"}, 200},
		{[]string{"session=2"}, 200},
		{[]string{"other=x; session=1"}, 429},
		{[]string{`session="2"`}, 429},
		{[]string{"other=x", "session=1"}, 429},
		{nil, 200},
		{[]string{"other=x"}, 429},
		{[]string{"session="}, 429},
	} {
		w := serve(h, "GET", "/", func(r *http.Request) { r.Header["Cookie"] = tc.headers })
		if w.Code != tc.status {
			t.Errorf("%q: %d: want %d", tc.headers, w.Code, tc.status)
		}
	}
}

// A variable of the path counts before the router as behind it, and for any router.
func TestLimitsByPathValue(t *testing.T) {
	rule := one("orders", rules.PathValue("id"), coord.PerHour(1))
	rule.Match.Path = "/orders/{id}"
	limits := Limits{Limiter: middlewaretest.Client(t), Rules: middlewaretest.Chain(t, rule)}
	behind := http.NewServeMux()
	behind.Handle("/orders/{order}", limits.Wrap(ok)) // which has another name for it
	before := limits.Wrap(ok)
	for i, tc := range []struct {
		h      http.Handler
		path   string
		status int
	}{
		{before, "/orders/7", 200}, {behind, "/orders/7", 429}, {behind, "/orders/8", 200}, {before, "/orders/%38", 429},
	} {
		if w := serve(tc.h, "GET", tc.path); w.Code != tc.status {
			t.Errorf("request %d for %s: %d: want %d", i, tc.path, w.Code, tc.status)
		}
	}
}
