package httpcoord

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/middleware/middlewaretest"
	"github.com/coordgo/coord/internal/testlog"
	"github.com/coordgo/coord/rules"
)

// shadowed is a rule in shadow mode.
func shadowed(name string, n int) rules.Rule {
	r := one(name, rules.Everyone(), coord.PerHour(n))
	r.Shadow = true
	return r
}

// A request that a rule in shadow mode would deny is served. The log, the response and the program are told.
func TestLimitsShadow(t *testing.T) {
	var out testlog.Buffer
	limits := Limits{
		Limiter: middlewaretest.Client(t), Log: out.Logger(),
		Rules: middlewaretest.Chain(t, one("real", rules.Everyone(), coord.PerHour(4)), shadowed("first", 1), shadowed("second", 2)),
	}
	h := limits.Wrap(ok)
	for i, want := range []struct {
		status int
		shadow string
	}{{200, ""}, {200, `"first"`}, {200, `"first", "second"`}, {200, `"first", "second"`}, {429, ""}} {
		w := serve(h, "GET", "/")
		if got := w.Header().Get("Coord-Shadow"); w.Code != want.status || got != want.shadow {
			t.Errorf("request %d: %d, shadow %s: want %+v", i, w.Code, got, want)
		}
		if policy := w.Header().Get("RateLimit-Policy"); strings.Contains(policy, "first") {
			t.Errorf("request %d: clients are told of %s", i, policy)
		}
	}
	const text = "a rule in shadow mode would deny requests"
	if s := out.String(); strings.Count(s, text) != 2 || !strings.Contains(s, "rule=first limit=first") || !strings.Contains(s, "rule=second") {
		t.Errorf("logged %q: want a line for each rule", s)
	}

	var told []string
	limits.Shadow = func(w http.ResponseWriter, r *http.Request, s *rules.Shadow) {
		told = append(told, r.URL.Path+" "+s.Rule)
		w.Header().Set("X-Told", "yes")
	}
	limits.Rules, limits.Fields = middlewaretest.Chain(t, shadowed("first", 1)), NoFields
	before := out.String()
	w := serve(limits.Wrap(ok), "GET", "/x")
	if w.Code != 200 || len(told) != 1 || told[0] != "/x first" || w.Header().Get("X-Told") != "yes" || len(w.Header()["Coord-Shadow"]) != 0 || out.String() != before {
		t.Errorf("%d, %v, told %q, logged %q", w.Code, w.Header(), told, out.String())
	}
}

// An error of a rule in shadow mode is logged, and the request is served.
func TestLimitsShadowErrors(t *testing.T) {
	var out testlog.Buffer
	rule := shadowed("r", 1)
	rule.Subject = rules.Func("nobody")
	limits := Limits{Limiter: middlewaretest.Client(t), Rules: middlewaretest.Chain(t, rule), Log: out.Logger()}
	limits.Shadow = func(http.ResponseWriter, *http.Request, *rules.Shadow) { t.Error("told of an error as of a denial") }
	h := limits.Wrap(ok)
	if w := serve(h, "GET", "/"); w.Code != 200 || w.Header().Get("Coord-Shadow") != "" {
		t.Errorf("%d, %v", w.Code, w.Header())
	}
	if s := out.String(); !strings.Contains(s, "a rule in shadow mode cannot be checked") || !strings.Contains(s, "Funcs") || !strings.Contains(s, "rule=r") {
		t.Errorf("logged %q", s)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	before := out.String()
	serve(limits.Wrap(ok), "GET", "/", func(r *http.Request) { *r = *r.WithContext(gone) })
	if s := out.String(); s != before {
		t.Errorf("a client that has gone was logged: %s", s)
	}
}

// A store that does not answer costs requests no more for a rule in shadow mode than for others: one waits, once in a
// while.
func TestLimitsShadowTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out testlog.Buffer
		limits := Limits{Limiter: middlewaretest.Over(t, middlewaretest.Silent{}), Rules: middlewaretest.Chain(t, shadowed("r", 1)), Log: out.Logger()}
		h := limits.Wrap(ok)
		began := time.Now()
		for range 100 {
			if w := serve(h, "GET", "/"); w.Code != 200 {
				t.Fatal(w.Code)
			}
		}
		if took := time.Since(began); took < DefaultTimeout || took > DefaultTimeout*5/4 {
			t.Errorf("100 requests took %v: want %v", took, DefaultTimeout)
		}
	})
}
