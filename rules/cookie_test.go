package rules

import (
	"errors"
	"strings"
	"testing"

	"github.com/coordgo/coord"
)

// Cookies are credentials: the store sees a hash.
func TestCookie(t *testing.T) {
	key := func(s Subject, cookies func(string) string) string {
		return chain(t, Rule{Name: "r", Subject: s, Limits: hour(1)}).Bounds(&Request{User: "ann", Cookie: cookies})[0].Demand.Key
	}
	session := Cookie("session")
	a, b := key(session, header("session", "sesame")), key(session, header("session", "other"))
	if a == b || strings.Contains(a, "sesame") || a != coord.Key("rule", "r", "cookie session", hashed("sesame")) {
		t.Errorf("keys %q and %q", a, b)
	}
	none := coord.Key("rule", "r", "cookie session", "")
	if got := key(session, nil); got != none {
		t.Errorf("a request without cookies: key %q: want %q", got, none)
	}
	if got := key(session, header("other", "sesame")); got != none {
		t.Errorf("a request with another cookie: key %q: want %q", got, none)
	}
	if a, b := key(Cookie("a"), header("a", "x")), key(Cookie("A"), header("a", "x")); a == b {
		t.Errorf("the case of a name makes no difference: %q", a)
	}
	if got := key(Combine(User(), session), header("session", "sesame")); strings.Contains(got, "sesame") {
		t.Errorf("key %q shows the secret", got)
	}
}

func TestCookieRefusals(t *testing.T) {
	for want, r := range map[string]Rule{
		`subject "cookie" without a name`:                                   {Subject: Cookie("")},
		`cookie "a b": want a name without`:                                 {Subject: Cookie("a b")},
		`cookie "a=": want a name without`:                                  {Subject: Cookie("a=")},
		`cookie "ä": want a name without`:                                   {Subject: Combine(User(), Cookie("ä"))},
		`subject "cookie a" of a rule by rpc: calls of gRPC have no cookie`: {Match: Match{RPC: "/a.B/C"}, Subject: Cookie("a")},
	} {
		r.Name, r.Limits = "r", hour(1)
		if _, err := New(r); !errors.Is(err, coord.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}
