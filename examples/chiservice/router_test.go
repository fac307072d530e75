package chiservice

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/coordtest"
	"github.com/coordgo/coord/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRouter(t *testing.T) {
	c := coordtest.New(t)
	chain, err := rules.New(
		rules.Rule{Name: "addresses", Subject: rules.IP(), Limits: []rules.Limit{{Limit: coord.PerHour(4)}}},
		rules.Rule{Name: "all", Limits: []rules.Limit{{Limit: coord.PerHour(1000)}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	router := Router(c.Client, chain)
	for i, tc := range []struct {
		method, path string
		code         int
		body         string
	}{
		{"PUT", "/orders/7", 200, "changed under order/7"},
		{"POST", "/orders", 201, ""},
		{"POST", "/orders", 409, "Idempotency-Key"},
		{"PUT", "/orders/8", 200, "changed under order/8"},
		{"PUT", "/orders/7", 429, "quota-exceeded"},
	} {
		r := httptest.NewRequest(tc.method, tc.path, nil)
		r.Header.Set("Idempotency-Key", `"6c8e1c7a"`)
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.body) {
			t.Errorf("%d: %s %s: %d %s: want %d %q", i, tc.method, tc.path, w.Code, w.Body, tc.code, tc.body)
		}
		wantFields(t, w.Header(), tc.code == http.StatusTooManyRequests)
	}
}

// wantFields reads the response fields with a library of structured fields.
func wantFields(t *testing.T, h http.Header, denied bool) {
	t.Helper()
	for name, param := range map[string]string{"RateLimit-Policy": "q", "RateLimit": "r"} {
		list, err := httpsfv.UnmarshalList(h.Values(name))
		if err != nil || len(list) != 2 {
			t.Fatalf("%s: %q: %v: want a list of two", name, h.Values(name), err)
		}
		first, ok := list[0].(httpsfv.Item)
		if !ok || first.Value != "addresses" {
			t.Errorf("%s: first is %v: want the string addresses", name, list[0])
		}
		v, _ := first.Params.Get(param)
		n, ok := v.(int64)
		if !ok || n < 0 || n > 4 || name == "RateLimit" && denied && n != 0 {
			t.Errorf("%s: %s=%v", name, param, v)
		}
	}
}
