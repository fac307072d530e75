package httpcoord

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t testing.TB, opts ...coord.Option) *coord.Client {
	t.Helper()
	return over(t, memory.New(), opts...)
}

func over(t testing.TB, b driver.Backend, opts ...coord.Option) *coord.Client {
	t.Helper()
	c, err := coord.New(b, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func chain(t testing.TB, list ...rules.Rule) *rules.Chain {
	t.Helper()
	c, err := rules.New(list...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

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

// output collects a log.
type output struct {
	mu sync.Mutex
	b  strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func logTo(o *output) *slog.Logger { return slog.New(slog.NewTextHandler(o, nil)) }

var errBroken = errors.New("the store is broken")
