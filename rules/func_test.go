package rules

import (
	"errors"
	"strings"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
)

// A function that is missing is a mistake, and no account that all requests share.
func TestMissingFunction(t *testing.T) {
	client, err := coord.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	functions := func(name string) (string, bool) { return "7", name == "order" }
	for _, tc := range []struct {
		subject Subject
		r       Request
		missing bool
	}{
		{Func("order"), Request{Func: functions}, false},
		{Combine(User(), Func("order")), Request{Func: functions}, false},
		{Func("other"), Request{Func: functions}, true},
		{Combine(Func("other"), User()), Request{Func: functions}, true},
		{Func("order"), Request{}, true},
		{Func("other"), Request{RPC: "/a.B/C"}, false}, // the rule is not about it
	} {
		ch := chain(t, Rule{Name: "r", Match: Match{Path: "/"}, Subject: tc.subject, Limits: []Limit{{Limit: coord.PerHour(9)}}})
		_, err := ch.Allow(t.Context(), client, &tc.r)
		if missing := errors.Is(err, coord.ErrInvalid) && strings.Contains(err.Error(), `rule "r"`); missing != tc.missing || err != nil && !missing {
			t.Errorf("%+v: %v", tc.subject, err)
		}
	}
}
