package chiservice

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dunglas/httpsfv"
	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/coordtest"
	"github.com/coordgo/coord/internal/routertest"
	"github.com/coordgo/coord/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRouter(t *testing.T) { routertest.Check(t, routertest.Of(Router)) }

// A library of structured fields reads the response fields.
func TestFieldsAreStructured(t *testing.T) {
	chain, err := rules.New(rules.Rule{Name: "users", Subject: rules.User(), Limits: []rules.Limit{{Limit: coord.PerHour(1)}}})
	if err != nil {
		t.Fatal(err)
	}
	service := Router(coordtest.New(t).Client, chain, nil, func(context.Context, string) error { return nil })
	for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
		w := httptest.NewRecorder()
		service.ServeHTTP(w, httptest.NewRequest("PUT", "/orders/7", nil))
		if w.Code != status {
			t.Fatalf("%d, want %d", w.Code, status)
		}
		for name, want := range map[string]struct {
			param string
			n     int64
		}{"RateLimit-Policy": {"q", 1}, "RateLimit": {"r", 0}} {
			list, err := httpsfv.UnmarshalList(w.Result().Header.Values(name))
			if err != nil || len(list) != 1 {
				t.Fatalf("%s: %q: %v: want a list of one", name, w.Result().Header.Values(name), err)
			}
			item, _ := list[0].(httpsfv.Item)
			if v, _ := item.Params.Get(want.param); item.Value != "users" || v != want.n {
				t.Errorf("%s: %v, %s=%v, want %d", name, item.Value, want.param, v, want.n)
			}
		}
	}
}
