package nethttp

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each request gets its own next handler, also where one middleware is inside another.
func TestOnce(t *testing.T) {
	made, passed := 0, 0
	m := func(next http.Handler) http.Handler {
		made++
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			passed++
			next.ServeHTTP(w, r)
		})
	}
	outer, inner := Once(m), Once(m)
	for i := range 3 {
		served := -1
		outer(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), func(w http.ResponseWriter, r *http.Request) {
			inner(w, r, func(http.ResponseWriter, *http.Request) { served = i })
		})
		if served != i {
			t.Errorf("request %d was served as %d", i, served)
		}
	}
	if made != 2 || passed != 6 {
		t.Errorf("made %d times and passed %d times, want 2 and 6", made, passed)
	}
}
