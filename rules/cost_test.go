package rules

import (
	"errors"
	"math"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
)

// A request takes the cost of each rule, and from a shared account the largest.
func TestCost(t *testing.T) {
	shared := Limit{Name: "shared", Limit: coord.PerHour(100)}
	ch := chain(
		t,
		Rule{Name: "all", Limits: []Limit{shared, {Limit: coord.PerHour(50)}}},
		Rule{Name: "reports", Match: Match{Path: "/reports"}, Cost: 10, Limits: []Limit{shared, {Limit: coord.PerHour(40)}}},
	)
	for _, tc := range []struct {
		r    Request
		want []int // permits of shared, all and reports
	}{
		{Request{Path: "/"}, []int{1, 1}},
		{Request{Path: "/", N: 3}, []int{3, 3}},
		{Request{Path: "/reports"}, []int{10, 1, 10}},
		{Request{Path: "/reports", N: 2}, []int{20, 2, 20}},
		{Request{Path: "/reports", N: math.MaxInt}, []int{math.MaxInt, math.MaxInt, math.MaxInt}},
	} {
		bounds := ch.Bounds(&tc.r)
		if len(bounds) != len(tc.want) {
			t.Fatalf("%+v: %d bounds: want %d", tc.r, len(bounds), len(tc.want))
		}
		for i, b := range bounds {
			if b.Demand.N != tc.want[i] {
				t.Errorf("%+v: %s takes %d: want %d", tc.r, b.Name(), b.Demand.N, tc.want[i])
			}
		}
	}
	client, err := coord.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 5 {
		d, err := ch.Allow(t.Context(), client, &Request{Path: "/reports"})
		if err != nil || d.Allowed != (i < 4) {
			t.Errorf("report %d: %+v, %v", i, d, err)
		}
	}
	for _, cost := range []int{-1, 3} {
		if _, err := New(Rule{Name: "r", Cost: cost, Limits: []Limit{{Limit: coord.PerHour(2)}}}); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("a cost of %d under 2/1h: %v", cost, err)
		}
	}
}
