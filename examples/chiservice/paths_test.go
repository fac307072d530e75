package chiservice

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/gorilla/mux"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/rules"
)

// served are patterns of rules, and of the routes of each router that they are for.
var served = []struct{ rule, chi, gorilla string }{
	{"/files/", "/files/*", "/files/{rest:.*}"},
	{"/public/", "/public/*", "/public/{rest:.*}"},
	{"/orders", "/orders", "/orders"},
	{"/orders/{id}", "/orders/{id}", "/orders/{id}"},
	{"/orders/{id}/items", "/orders/{id}/items", "/orders/{id}/items"},
	{"/a%20b/{x}", "/a b/{x}", "/a b/{x}"},
}

// spellings are seeds of the fuzz target, and what other routers were tried with.
var spellings = []string{
	"/files/big.bin", "/files%2Fbig.bin", "/%66iles/big.bin", "/public/%2e%2e/files/big.bin", "/public/../files/big.bin",
	"//files/big.bin", "/files/big.bin/", "/files", "/orders/", "/orders//items", "/orders/a%2Fb", "/orders/7//", "/a%20b/7", "*",
}

// routers are those that were tried, each with the routes of served; it calls the handler of a rule's name.
func routers(handler func(rule string) http.HandlerFunc) map[string]http.Handler {
	all := make(map[string]http.Handler)
	for name, use := range map[string][]func(http.Handler) http.Handler{
		"chi": nil, "chi, StripSlashes": {middleware.StripSlashes}, "chi, CleanPath": {middleware.CleanPath},
		"chi, GetHead": {middleware.GetHead}, "chi, all": {middleware.CleanPath, middleware.StripSlashes, middleware.GetHead},
	} {
		r := chi.NewRouter()
		r.Use(use...)
		for _, s := range served {
			if s.rule != "/orders" {
				r.Get(s.chi, handler(s.rule))
			}
		}
		r.Route("/orders", func(r chi.Router) { r.Get("/", handler("/orders")) })
		all[name] = r
	}
	for name, r := range map[string]*mux.Router{
		"gorilla": mux.NewRouter(), "gorilla, UseEncodedPath": mux.NewRouter().UseEncodedPath(),
		"gorilla, SkipClean": mux.NewRouter().SkipClean(true), "gorilla, StrictSlash": mux.NewRouter().StrictSlash(true),
	} {
		for _, s := range served {
			r.HandleFunc(s.gorilla, handler(s.rule)).Methods("GET", "HEAD")
		}
		all[name] = r
	}
	return all
}

// FuzzServedIsLimited sends a path to each router behind limits. What a handler serves has been
// counted by the rule for it, and no other rule has made it exempt.
func FuzzServedIsLimited(f *testing.F) {
	for _, s := range spellings {
		f.Add(s, "GET")
		f.Add(s, "HEAD")
	}
	limit := []rules.Limit{{Limit: coord.PerHour(1)}}
	var limiting []rules.Rule
	for _, s := range served {
		limiting = append(limiting, rules.Rule{Name: s.rule, Match: rules.Match{Methods: []string{"GET"}, Path: s.rule}, Limits: limit})
	}
	counted, err := rules.New(limiting...)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, target, method string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || method != "GET" && method != "HEAD" {
			return
		}
		var reached string
		for name, router := range routers(func(rule string) http.HandlerFunc {
			return func(http.ResponseWriter, *http.Request) { reached = rule }
		}) {
			reached = ""
			names := through(counted, router, method, *u)
			if reached != "" && !strings.Contains(names, "\n"+reached+"\n") {
				t.Errorf("%s serves %s %q by %s, and it was limited by %q", name, method, target, reached, names)
			}
			for _, s := range served {
				exempt, err := rules.New(rules.Rule{Name: "exempt", Match: rules.Match{Path: s.rule}, Final: true}, rules.Rule{Name: "rest", Limits: limit})
				if err != nil {
					t.Fatal(err)
				}
				reached = ""
				if names := through(exempt, router, method, *u); names == "\n" && reached != "" && reached != s.rule && !below(s.rule, reached) {
					t.Errorf("%s serves %s %q by %s, and the rule for %s makes it exempt", name, method, target, reached, s.rule)
				}
			}
		}
	})
}

// below reports whether the first pattern has the paths of the second.
func below(pattern, other string) bool {
	return strings.HasSuffix(pattern, "/") && strings.HasPrefix(other, pattern)
}

// through sends a request through the limits of chain to a router, and lists the rules that counted it, in lines.
func through(chain *rules.Chain, router http.Handler, method string, u url.URL) string {
	names := "\n"
	limits := httpcoord.Limits{Limiter: admitting{}, Rules: noted{chain, &names}, Fields: httpcoord.NoFields}
	r := &http.Request{Method: method, URL: &u, Host: "h", Header: make(http.Header), RequestURI: u.RequestURI()}
	limits.Wrap(router).ServeHTTP(httptest.NewRecorder(), r)
	return names
}

// admitting is a limiter that admits everything.
type admitting struct{}

func (admitting) AllowN(_ context.Context, _ string, _ coord.Limit, n int) (coord.Result, error) {
	return coord.Result{Allowed: true, Granted: n}, nil
}

func (admitting) AllowAll(_ context.Context, demands ...coord.Demand) ([]coord.Result, error) {
	results := make([]coord.Result, len(demands))
	for i, d := range demands {
		results[i] = coord.Result{Allowed: true, Granted: d.N}
	}
	return results, nil
}

// noted is a chain that notes the rules that applied.
type noted struct {
	*rules.Chain
	names *string
}

func (n noted) Allow(ctx context.Context, limiter rules.Limiter, r *rules.Request) (rules.Decision, error) {
	d, err := n.Chain.Allow(ctx, limiter, r)
	for _, b := range d.Bounds {
		*n.names += b.Rule + "\n"
	}
	return d, err
}
