package server

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/observe"
)

// Rates are of the last 10 to 20 seconds, and what was long ago does not count.
func TestDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(Decisions)
		o := d.Observer()
		limit := coord.PerSecond(5)
		near := func(got, want float64) {
			t.Helper()
			if math.Abs(got-want) > 0.11*want {
				t.Errorf("%v a second, want %v", got, want)
			}
		}
		for range 60 {
			for range 4 {
				o.Allowed(t.Context(), observe.Decision{Key: "a", Limit: limit})
			}
			o.Denied(t.Context(), observe.Decision{Key: "a", Limit: limit})
			o.Denied(t.Context(), observe.Decision{Key: "b", Limit: limit})
			o.Denied(t.Context(), observe.Decision{Key: "a", Limit: limit, Shadow: true})
			time.Sleep(time.Second)
		}
		all, of := d.recent()
		near(all.allowed, 4)
		near(all.denied, 2)
		near(of[counted{"a", limit}].allowed, 4)
		near(of[counted{"b", limit}].denied, 1)
		time.Sleep(2 * periodTime)
		if all, of := d.recent(); all != (rates{}) || len(of) != 0 {
			t.Errorf("after a while: %v, %v", all, of)
		}
		if all, of := (*Decisions)(nil).recent(); all != (rates{}) || len(of) != 0 {
			t.Errorf("nobody counts: %v, %v", all, of)
		}
	})
}

// Any number of subjects is counted in a bounded place, those that are denied before others.
func TestDecisionsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(Decisions)
		o := d.Observer()
		tell := func(to func(context.Context, observe.Decision), name string) {
			for i := range 5 * maxAccounts {
				to(t.Context(), observe.Decision{Key: fmt.Sprint(name, i), Limit: coord.PerSecond(5)})
			}
		}
		tell(o.Allowed, "allowed")
		tell(o.Denied, "denied")
		all, of := d.recent()
		denied := 0
		for a := range of {
			if of[a].denied > 0 {
				denied++
			}
		}
		if len(of) != 2*maxAccounts || denied != maxAccounts || all.allowed != all.denied || all.allowed < 400 {
			t.Errorf("%d accounts, %d of them denied; %v", len(of), denied, all)
		}
	})
}
