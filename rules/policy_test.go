package rules_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/rules"
)

// away is a client of a store that does not answer, with its failure policy.
type away struct{ policy coord.FailurePolicy }

var errAway = fmt.Errorf("%w: a test", coord.ErrUnavailable)

func (a away) AllowN(_ context.Context, _ string, _ coord.Limit, n int) (coord.Result, error) {
	if a.policy == coord.FailOpen {
		return coord.Result{Allowed: true, Granted: n, Degraded: errAway}, nil
	}
	return coord.Result{}, errAway
}

func (a away) AllowAll(ctx context.Context, demands ...coord.Demand) (list []coord.Result, err error) {
	for _, d := range demands {
		r, err := a.AllowN(ctx, d.Key, d.Limit, d.N)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// Without the store a request is admitted if all rules that it matches admit it. A rule without a policy has the client's.
func TestFailurePolicy(t *testing.T) {
	open, closed := new(coord.FailOpen), new(coord.FailClosed)
	for _, tc := range []struct {
		of       []*coord.FailurePolicy // the rules that match
		byOpen   bool                   // admitted where the client is open
		byClosed bool
	}{
		{[]*coord.FailurePolicy{nil}, true, false},
		{[]*coord.FailurePolicy{open}, true, true},
		{[]*coord.FailurePolicy{closed}, false, false},
		{[]*coord.FailurePolicy{open, nil}, true, false},
		{[]*coord.FailurePolicy{nil, open}, true, false},
		{[]*coord.FailurePolicy{open, open}, true, true},
		{[]*coord.FailurePolicy{open, closed}, false, false},
		{[]*coord.FailurePolicy{nil, closed, open}, false, false},
	} {
		for _, name := range []string{"", "shared"} { // accounts of their own, and one that all share
			var list []rules.Rule
			for i, p := range tc.of {
				limit := rules.Limit{Name: name, Limit: coord.PerHour(9)}
				list = append(list, rules.Rule{Name: fmt.Sprint(i), Limits: []rules.Limit{limit}, FailurePolicy: p})
			}
			chain, err := rules.New(list...)
			if err != nil {
				t.Fatal(err)
			}
			for policy, admitted := range map[coord.FailurePolicy]bool{coord.FailOpen: tc.byOpen, coord.FailClosed: tc.byClosed} {
				d, err := chain.Allow(t.Context(), away{policy}, &rules.Request{N: 2})
				if d.Allowed != admitted || errors.Is(err, coord.ErrUnavailable) == admitted {
					t.Errorf("rules %v, client %v: %+v, %v: want admitted: %v", tc.of, policy, d, err, admitted)
				}
				if admitted && (!errors.Is(d.Degraded(), coord.ErrUnavailable) || d.Bounds[0].Result.Granted != 2) {
					t.Errorf("admitted with %+v", d)
				}
			}
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	chain, err := rules.New(rules.Rule{Name: "a", Limits: []rules.Limit{{Limit: coord.PerHour(9)}}, FailurePolicy: open})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := chain.Allow(gone, away{coord.FailClosed}, &rules.Request{}); err == nil {
		t.Errorf("a caller that has gone is admitted: %+v", d)
	}
	if *chain.Rules()[0].FailurePolicy = coord.FailClosed; *chain.Rules()[0].FailurePolicy != coord.FailOpen {
		t.Error("a copy of a rule shares its policy")
	}
	if _, err := rules.New(rules.Rule{Name: "a", Limits: []rules.Limit{{Limit: coord.PerHour(9)}}, FailurePolicy: new(coord.FailurePolicy(7))}); !errors.Is(err, coord.ErrInvalid) {
		t.Errorf("a policy that there is not: %v", err)
	}
}
