package httpcoord

import (
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/rules"
)

// What ServeMux, http.FileServer or both serve under a path has been limited by the rule for it, however the request is
// spelled, and a rule that ends the chain was meant by what is served.
func FuzzServedIsLimited(f *testing.F) {
	for _, seed := range [][2]string{
		{"/files/", "/files%2Fbig.bin"},
		{"/files/", "/public/%2e%2e/files/big.bin"},
		{"/files/", "/public/../files/big.bin"},
		{"/files/", "//files//big.bin"},
		{"/files/", "/files/big.bin/"},
		{"/files/{name}", "/files/big.bin"},
		{"/files/{name}", "/files/a%2Fb"},
		{"/files/{rest...}", "/files/%252e/x"},
		{"/files/{$}", "/files/"},
		{"/files/{$}", "/files"},
		{"/public/", "/public/%2e%2e/files/big.bin"},
		{"/files", "/%66iles"},
		{"/a%20b", "/a%20b"},
		{"/", "/"},
	} {
		f.Add(seed[0], seed[1], "GET")
		f.Add(seed[0], seed[1], "HEAD")
	}
	f.Fuzz(func(t *testing.T, pattern, target, method string) {
		if (method != "GET" && method != "HEAD") || !strings.HasPrefix(target, "/") {
			return
		}
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		rule := rules.Rule{Name: "it", Match: rules.Match{Methods: []string{"GET"}, Path: pattern}, Limits: hourly, Final: true}
		chain, err := rules.New(rule, rules.Rule{Name: "rest", Limits: hourly})
		if err != nil || pattern == "" {
			return
		}
		r := &http.Request{Method: method, URL: u, Host: "h", Header: make(http.Header)}
		limited, ended := countedBy(chain, r)

		if mux, ok := muxOf(pattern); ok {
			_, found := mux.Handler(r)
			// It reports the pattern for redirects to it too. The mux redirects what is not clean, and /a to /a/.
			if found == pattern && !limited {
				t.Errorf("ServeMux serves %s %q by %q, which has not been limited", method, target, pattern)
			}
			if found != pattern && ended {
				t.Errorf("ServeMux does not serve %s %q by %q, which has ended the chain", method, target, pattern)
			}
		}
		served := fileServed(u)
		if served == "" {
			return
		}
		plain := (&url.URL{Path: served}).EscapedPath()
		canonical, _ := countedBy(chain, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: served}, Host: "h"})
		if canonical && !limited {
			t.Errorf("FileServer serves %s for %s %q, and the rule for %q has not limited it", plain, method, target, pattern)
		}
		if ended && !canonical {
			t.Errorf("FileServer serves %s for %s %q, and the rule for %q has ended the chain", plain, method, target, pattern)
		}
	})
}

var hourly = []rules.Limit{{Limit: coord.PerHour(1)}}

// denying is a limiter that denies everything.
type denying struct{}

func (denying) AllowN(context.Context, string, coord.Limit, int) (coord.Result, error) {
	return coord.Result{}, nil
}

func (denying) AllowAll(_ context.Context, demands ...coord.Demand) ([]coord.Result, error) {
	return make([]coord.Result, len(demands)), nil
}

// muxOf is a mux of one pattern, unless it takes the pattern for something else.
func muxOf(pattern string) (mux *http.ServeMux, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	mux = http.NewServeMux()
	mux.Handle(pattern, http.NotFoundHandler())
	return mux, true
}

// countedBy asks the middleware which of the two rules of chain a request counts against.
func countedBy(chain *rules.Chain, r *http.Request) (limited, ended bool) {
	var d rules.Decision
	limits := Limits{
		Limiter: denying{}, Rules: chain, Fields: NoFields,
		Deny: func(_ http.ResponseWriter, _ *http.Request, got *rules.Decision) { d = *got },
	}
	limits.Wrap(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
	return d.Bounds[0].Rule == "it", d.Bounds[len(d.Bounds)-1].Rule == "it"
}

// fileServed is the path of the file that http.FileServer serves for u where it has every file; "" if it redirects.
func fileServed(u *url.URL) string {
	name := strings.TrimPrefix(path.Clean("/"+u.Path), "/")
	if name == "" || !fs.ValidPath(name) {
		return ""
	}
	files := fstest.MapFS{name: {Data: []byte(name)}}
	w := httptest.NewRecorder()
	http.FileServerFS(files).ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: u, Header: make(http.Header)})
	if w.Code != http.StatusOK {
		return ""
	}
	return "/" + w.Body.String()
}
