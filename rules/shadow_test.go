package rules

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/observe"
)

// A rule in shadow mode decides as it would by itself, and admits. Nothing that it does changes what other rules decide.
func TestShadow(t *testing.T) {
	shared := Limit{Name: "shared", Limit: coord.PerHour(3)}
	ch := chain(
		t,
		Rule{Name: "strict", Subject: User(), Shadow: true, Limits: []Limit{{Limit: coord.PerHour(1)}, shared}},
		Rule{Name: "enforced", Subject: User(), Limits: []Limit{shared}},
		Rule{Name: "wide", Match: Match{Path: "/wide"}, Shadow: true, Limits: hour(1)},
	)
	c := client(t)
	for i, want := range []struct {
		path           string
		allowed        bool
		shadow, denies []string
	}{
		{"/", true, []string{"strict"}, nil},
		{"/wide", true, []string{"strict", "wide"}, []string{"strict"}},
		{"/wide", true, []string{"strict", "wide"}, []string{"strict", "wide"}},
		{"/wide", false, nil, nil}, // refused requests are not asked about
	} {
		d, err := ch.Allow(t.Context(), c, &Request{Method: "GET", Path: want.path, User: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		var shadow, denies []string
		for _, s := range d.Shadow {
			if shadow = append(shadow, s.Rule); s.Denied() {
				denies = append(denies, s.Rule)
				if s.RetryAfter() <= 0 || s.Tightest().Rule != s.Rule {
					t.Errorf("request %d: %+v", i, s)
				}
			}
			if s.Err != nil {
				t.Errorf("request %d: %v", i, s.Err)
			}
		}
		if d.Allowed != want.allowed || len(d.Bounds) != 1 || !slices.Equal(shadow, want.shadow) || !slices.Equal(denies, want.denies) {
			t.Errorf("request %d: %+v: want %+v", i, d, want)
		}
	}
	if b := ch.Bounds(&Request{Path: "/wide"}); len(b) != 1 || b[0].Rule != "enforced" {
		t.Errorf("a request counts against %+v", b)
	}
}

// What goes wrong in a rule in shadow mode is told, and the request is admitted.
func TestShadowErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		rule    Rule
		limiter Limiter
		want    error
	}{
		"the store":      {Rule{Limits: hour(1)}, over(t, silent{memory.New().(limiter)}), coord.ErrUnavailable},
		"no function":    {Rule{Subject: Func("nobody"), Limits: hour(1)}, client(t), coord.ErrInvalid},
		"several limits": {Rule{Limits: append(hour(1), Limit{Limit: coord.PerHour(1)})}, over(t, plain{memory.New().(limiter)}), coord.ErrUnsupported},
		"too much":       {Rule{Cost: 2, Limits: hour(3)}, client(t), coord.ErrExceedsBurst},
	} {
		tc.rule.Name, tc.rule.Shadow = "r", true
		n := 1
		if tc.want == coord.ErrExceedsBurst {
			n = 2
		}
		d, err := chain(t, tc.rule).Allow(t.Context(), tc.limiter, &Request{N: n})
		if err != nil || !d.Allowed || len(d.Shadow) != 1 || !errors.Is(d.Shadow[0].Err, tc.want) || d.Shadow[0].Denied() {
			t.Errorf("%s: %+v, %v: want %v", name, d, err, tc.want)
		}
	}
	d, err := chain(t, Rule{Name: "r", Shadow: true, Limits: hour(1)}).Allow(t.Context(), over(t, silent{memory.New().(limiter)}, coord.WithFailurePolicy(coord.FailOpen)), &Request{})
	if err != nil || len(d.Shadow) != 1 || d.Shadow[0].Denied() || d.Shadow[0].Degraded() == nil || d.Degraded() != nil {
		t.Errorf("under FailOpen: %+v, %v", d, err)
	}
}

func TestShadowRefusals(t *testing.T) {
	for want, r := range map[string]Rule{
		"in shadow mode and final: want one of the two":   {Limits: hour(1), Final: true},
		"it has neither limits nor Final, and so does no": {},
	} {
		r.Name, r.Shadow = "r", true
		if _, err := New(r); !errors.Is(err, coord.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}

// Observers can tell the decisions of rules in shadow mode from those that requests got.
func TestShadowIsObserved(t *testing.T) {
	var told []observe.Decision
	note := func(_ context.Context, e observe.Decision) { told = append(told, e) }
	c := client(t, coord.WithObserver(observe.Observer{Allowed: note, Denied: note}))
	ch := chain(
		t,
		Rule{Name: "enforced", Limits: hour(9)},
		Rule{Name: "one", Shadow: true, Limits: hour(1)},
		Rule{Name: "two", Shadow: true, Limits: append(hour(9), Limit{Limit: coord.PerHour(9)})},
	)
	for range 2 {
		if _, err := ch.Allow(t.Context(), c, &Request{}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, e := range told {
		text := strings.Split(e.Key, "/")[1]
		if e.Shadow {
			text += " shadow"
		}
		if e.Granted == 0 {
			text += " denied"
		}
		got = append(got, text)
	}
	want := []string{
		"enforced", "one shadow", "two shadow", "two shadow",
		"enforced", "one shadow denied", "two shadow", "two shadow",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q: want %q", got, want)
	}
}
