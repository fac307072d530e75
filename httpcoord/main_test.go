package httpcoord

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve gives h one request; edit may change it.
func serve(h http.Handler, method, target string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for _, e := range edit {
		e(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// with is a header of a request.
func with(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// from is where a request comes from.
func from(addr string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = addr }
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })

// wantProblem checks an answer that is problem details.
func wantProblem(t *testing.T, w *httptest.ResponseRecorder, status int) problem {
	t.Helper()
	if w.Code != status || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d %s %s: want problem details of %d", w.Code, w.Header().Get("Content-Type"), w.Body, status)
	}
	var p problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if p.Status != status || p.Title == "" {
		t.Errorf("problem %+v: want status %d and a title", p, status)
	}
	return p
}

var errBroken = errors.New("the store is broken")
