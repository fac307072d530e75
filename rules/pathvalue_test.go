package rules

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/coordgo/coord"
)

// pathKey is the key of a request for a path by a variable of the pattern; "" if the rule does not match.
func pathKey(t *testing.T, m Match, s Subject, path string) string {
	t.Helper()
	bounds := chain(t, Rule{Name: "r", Match: m, Subject: s, Limits: hour(1)}).Bounds(&Request{Method: "GET", Path: path, User: "ann"})
	if len(bounds) == 0 {
		return ""
	}
	return bounds[0].Demand.Key
}

// A value has one account however the path is spelled, and a path of which servers read different values has none
// of them.
func TestPathValue(t *testing.T) {
	for _, tc := range []struct{ pattern, name, path, want string }{
		{"/orders/{id}", "id", "/orders/7", "7"},
		{"/orders/{id}", "id", "/orders/%37", "7"},
		{"/orders/{id}", "id", "/orders/7/", "7"},
		{"/orders/{id}", "id", "//orders/./7", "7"},
		{"/orders/{id}", "id", "/x/../orders/7", "7"},
		{"/orders/{id}", "id", "/orders/%2537", "%37"},
		{"/orders/{id}", "id", "/orders/a%2Fb", "a/b"},
		{"/orders/{id}/items", "id", "/orders//items", ""},
		{"/orders/{id}/items", "id", "/orders/8/items", "8"},
		{"/{tenant}/orders/{id}", "tenant", "/acme/orders/7", "acme"},
		{"/{tenant}/orders/{id}", "id", "/acme/orders/7", "7"},
		{"/files/{rest...}", "rest", "/files/a/b", "a/b"},
		{"/files/{rest...}", "rest", "/files/a%2Fb/", "a/b"},
		{"/files/{rest...}", "rest", "/files//a/x/../b", "a/b"},
		{"/files/{rest...}", "rest", "/files", ""},
		// Another value for a server that decodes, or cleans, than for one that does not.
		{"/{tenant}/{rest...}", "tenant", "/acme/../emca/x", ""},
		{"/{tenant}/{rest...}", "tenant", "/acme/%2e%2e/emca/x", ""},
		{"/{tenant}/{rest...}", "tenant", "/acme%2Femca/x", ""},
		{"/{tenant}/files/{rest...}", "tenant", "/acme/files/../../emca/files/x", ""},
	} {
		got := pathKey(t, Match{Path: tc.pattern}, PathValue(tc.name), tc.path)
		if want := coord.Key("rule", "r", "path "+tc.name, tc.want); got != want {
			t.Errorf("{%s} of %s in %s: key %q: want %q", tc.name, tc.pattern, tc.path, got, want)
		}
	}
	long := pathKey(t, Match{Path: "/orders/{id}"}, PathValue("id"), "/orders/"+strings.Repeat("x", 2000))
	if len(long) > 100 {
		t.Errorf("a key of %d bytes", len(long))
	}
	both := Combine(User(), PathValue("id"))
	if a, b := pathKey(t, Match{Path: "/orders/{id}"}, both, "/orders/7"), pathKey(t, Match{Path: "/orders/{id}"}, both, "/orders/8"); a == b {
		t.Errorf("two orders of a user have the key %q", a)
	}
}

// A variable that the rule's own pattern does not have would be one account for all requests.
func TestPathValueRefusals(t *testing.T) {
	for want, r := range map[string]Rule{
		`subject "path id": path "" has no {id}`:                 {Subject: PathValue("id")},
		`subject "path id": path "/orders/" has no {id}`:         {Match: Match{Path: "/orders/"}, Subject: PathValue("id")},
		`subject "path id": path "/{no}" has no {id}`:            {Match: Match{Path: "/{no}"}, Subject: Combine(User(), PathValue("id"))},
		`subject "path $": path "/{$}" has no {$}`:               {Match: Match{Path: "/{$}"}, Subject: PathValue("$")},
		`subject "path" without a name`:                          {Match: Match{Path: "/{id}"}, Subject: PathValue("")},
		`subject "path id": path "" has no {id}: want a rule by`: {Match: Match{RPC: "/a.B/C"}, Subject: PathValue("id")},
	} {
		r.Name, r.Limits = "r", hour(1)
		if _, err := New(r); !errors.Is(err, coord.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}

// What http.ServeMux serves by the pattern counts under the value that its handler gets, or with all the other requests
// whose spelling has several values: no value has more than these two accounts.
func FuzzPathValue(f *testing.F) {
	for _, seed := range [][3]string{
		{"/orders/{id}", "id", "/orders/7"},
		{"/orders/{id}", "id", "/orders/a%2Fb"},
		{"/orders/{id}", "id", "/orders/%37/"},
		{"/a/{x}/{y}", "x", "/a/7/8"},
		{"/a/{rest...}", "rest", "/a/b/c/"},
		{"/a/{rest...}", "rest", "/a/b%2F..%2Fc"},
		{"/{t}/{rest...}", "t", "/x/%2e%2e/y"},
		{"/{t}/a%2Fb/{rest...}", "t", "/x/a%2Fb/%2e%2e"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, pattern, name, target string) {
		c, err := New(Rule{Name: "r", Match: Match{Path: pattern}, Subject: PathValue(name), Limits: hour(1)})
		if err != nil || strings.ContainsAny(pattern, " \t") {
			return
		}
		u, err := url.ParseRequestURI(target)
		if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(u.Path, "/") {
			return
		}
		if _, ok := muxOf(pattern); !ok {
			return
		}
		value, served := "", false
		mux := http.NewServeMux()
		mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) { value, served = r.PathValue(name), true })
		mux.ServeHTTP(httptest.NewRecorder(), &http.Request{Method: "GET", URL: u, Host: "h", Header: make(http.Header)})
		if !served {
			return
		}
		if strings.HasSuffix(pattern, "{"+name+"...}") {
			value = strings.Trim(cleaned(value), "/")
		}
		key := c.Bounds(&Request{Method: "GET", Path: u.EscapedPath()})[0].Demand.Key
		own, several := coord.Key("rule", "r", "path "+name, short(value)), coord.Key("rule", "r", "path "+name, "")
		if key != own && key != several {
			t.Errorf("%q has {%s} = %q by %s, and key %q: want %q or %q", target, name, value, pattern, key, own, several)
		}
	})
}
