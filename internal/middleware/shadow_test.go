package middleware

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/middleware/middlewaretest"
	"github.com/coordgo/coord/rules"
)

// While the store does not answer a rule in shadow mode, one request in a while waits for it. Other rules are asked as
// ever, and so is that one when it has been answered.
func TestShadowIsCutOff(t *testing.T) {
	for name, policy := range map[string]coord.FailurePolicy{"open": coord.FailOpen, "closed": coord.FailClosed} {
		for limits := 1; limits <= 2; limits++ {
			t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { shadowIsCutOff(t, policy, limits) }) })
		}
	}
}

func shadowIsCutOff(t *testing.T, policy coord.FailurePolicy, limits int) {
	time.Sleep(time.Until(start)) // the bubble's clock begins in the past
	store := &stuck{back: make(chan struct{}), open: policy == coord.FailOpen}
	b := &Breaker{Limiter: store}
	real := rules.Rule{Name: "real", Limits: []rules.Limit{{Limit: coord.PerHour(1000)}}}
	tried := rules.Rule{Name: "tried", Shadow: true, Limits: []rules.Limit{{Limit: coord.PerHour(1)}, {Limit: coord.PerSecond(1)}}[:limits]}
	b.Rules = middlewaretest.Chain(t, real, tried)
	ask := func() *rules.Shadow {
		t.Helper()
		d, err := b.Allow(t.Context(), &rules.Request{})
		if err != nil || !d.Allowed || d.Degraded() != nil || len(d.Shadow) != 1 {
			t.Fatalf("%+v, %v", d, err)
		}
		return &d.Shadow[0]
	}
	began := time.Now()
	for range 100 {
		s := ask()
		if open := policy == coord.FailOpen; open != (s.Degraded() != nil) || open == errors.Is(s.Err, coord.ErrUnavailable) {
			t.Fatalf("%+v", s)
		}
	}
	if took := time.Since(began); took != DefaultTimeout {
		t.Errorf("100 requests took %v: want %v", took, DefaultTimeout)
	}
	if b.outage.Load() != nil {
		t.Error("the circuit of the other rules is open")
	}
	time.Sleep(askShadowEvery)
	began = time.Now()
	for range 100 {
		ask()
	}
	if took := time.Since(began); took != DefaultTimeout {
		t.Errorf("100 requests after a while took %v: want %v", took, DefaultTimeout)
	}

	close(store.back)
	time.Sleep(askShadowEvery)
	before := store.asked
	for range 10 {
		if s := ask(); s.Err != nil || s.Degraded() != nil {
			t.Errorf("after the outage: %+v", s)
		}
	}
	if n := store.asked - before; n != 10 {
		t.Errorf("the store was asked %d times for 10 requests after the outage", n)
	}
}

// stuck is a store that leaves calls for rules in shadow mode unanswered until it is back.
type stuck struct {
	back  chan struct{}
	open  bool // the failure policy admits
	asked int  // for such rules
}

func (s *stuck) AllowN(ctx context.Context, key string, _ coord.Limit, n int) (coord.Result, error) {
	if !strings.HasPrefix(key, "shadow/") {
		return coord.Result{Allowed: true, Granted: n}, nil
	}
	s.asked++
	select {
	case <-s.back:
		return coord.Result{Allowed: true, Granted: n}, nil
	case <-ctx.Done():
		if s.open {
			return coord.Result{Allowed: true, Granted: n, Degraded: coord.ErrUnavailable}, nil
		}
		return coord.Result{}, coord.ErrUnavailable
	}
}

func (s *stuck) AllowAll(ctx context.Context, demands ...coord.Demand) ([]coord.Result, error) {
	r, err := s.AllowN(ctx, demands[0].Key, demands[0].Limit, demands[0].N)
	if err != nil {
		return nil, err
	}
	return slices.Repeat([]coord.Result{r}, len(demands)), nil
}

// A store that refuses at once delays nobody, and is asked every time.
func TestShadowIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(start))
		b, _ := breaker(t, func(string) <-chan struct{} { return nil })
		tried := rules.Rule{Name: "tried", Shadow: true, Limits: []rules.Limit{{Limit: coord.PerHour(1000)}}}
		b.Rules = middlewaretest.Chain(t, tried)
		asks := 0
		b.Limiter = refusing{b.Limiter, &asks}
		for range 10 {
			if d, err := b.Allow(t.Context(), &rules.Request{}); err != nil || !errors.Is(d.Shadow[0].Err, coord.ErrUnavailable) {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		if asks != 10 {
			t.Errorf("the store was asked %d times for 10 requests", asks)
		}
	})
}

// refusing is a store that is unavailable, and says so at once.
type refusing struct {
	rules.Limiter
	asks *int
}

func (r refusing) AllowN(context.Context, string, coord.Limit, int) (coord.Result, error) {
	*r.asks++
	return coord.Result{}, &coord.Error{Op: "allow", Err: coord.ErrUnavailable}
}
