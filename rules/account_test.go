package rules

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/coordgo/coord"
)

// What an operator names is what a request with these values counts against.
func TestAccount(t *testing.T) {
	limits := []Limit{{Limit: coord.PerSecond(5)}, {Name: "shared", Limit: coord.PerHour(1000)}}
	header := func(name string) string {
		if name == "X-Tenant" || name == "Authorization" {
			return "acme"
		}
		return ""
	}
	request := Request{
		Method: "GET", Path: "/orders/7", IP: netip.MustParseAddr("2001:db8::1"), User: "ann", Header: header,
		Cookie: func(string) string { return "c" }, Func: func(string) (string, bool) { return "f", true },
	}
	for name, tt := range map[string]struct {
		subject Subject
		values  []string
	}{
		"everyone": {Everyone(), nil},
		"constant": {Constant("a"), nil},
		"ip":       {IP(), []string{"2001:db8::1"}},
		"user":     {User(), []string{"ann"}},
		"header":   {Header("X-Tenant"), []string{"acme"}},
		"secret":   {Header("Authorization"), []string{"acme"}},
		"api key":  {APIKey("X-Tenant"), []string{"acme"}},
		"cookie":   {Cookie("session"), []string{"c"}},
		"path":     {PathValue("id"), []string{"7"}},
		"func":     {Func("plan"), []string{"f"}},
		"combined": {Combine(User(), Header("X-Tenant"), PathValue("id")), []string{"ann", "acme", "7"}},
	} {
		for _, shadow := range []bool{false, true} {
			chain, err := New(Rule{Name: "other", Final: true, Match: Match{Path: "/other"}}, Rule{Name: "rule", Match: Match{Path: "/orders/{id}"}, Subject: tt.subject, Limits: limits, Shadow: shadow})
			if err != nil {
				t.Fatal(err)
			}
			want, inShadow, err := chain.bounds(&request)
			if shadow {
				want = inShadow[0].Bounds
			}
			got, gotErr := chain.Account("rule", tt.values...)
			if err != nil || gotErr != nil || len(got) != 2 || len(want) != 2 || got[0] != want[0] || got[1] != want[1] {
				t.Errorf("%s, shadow %v: %+v, %v; want %+v, %v", name, shadow, got, gotErr, want, err)
			}
			for _, values := range [][]string{append(tt.values, "more"), tt.values[:max(0, len(tt.values)-1)]} {
				if len(values) == len(tt.values) {
					continue
				}
				if _, err := chain.Account("rule", values...); !errors.Is(err, coord.ErrInvalid) {
					t.Errorf("%s of %q = %v", name, values, err)
				}
			}
		}
	}
	chain, err := New(Rule{Name: "a", Subject: IP(), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"b"}, {"a", "no address"}} {
		if _, err := chain.Account(args[0], args[1:]...); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("Account(%q) = %v", args, err)
		}
	}
}

func TestSubjectString(t *testing.T) {
	for want, s := range map[string]Subject{
		"everyone": Everyone(), "ip": IP(), "header X-Tenant": Header("X-Tenant"), "user + path id": Combine(User(), PathValue("id")), "constant a": Constant("a"),
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
}
