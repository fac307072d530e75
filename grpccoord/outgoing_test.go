package grpccoord

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/middleware/middlewaretest"
)

func through(o Outgoing) []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(o.Unary()), grpc.WithChainStreamInterceptor(o.Stream())}
}

func TestOutgoingFails(t *testing.T) {
	store := middlewaretest.Client(t)
	c := serve(t, Limits{}, through(Outgoing{Limiter: store, Limit: year(2), FailFast: true})...)
	ctx := t.Context()
	if err := errors.Join(check(ctx, c), watch(ctx, c)); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"call": check(ctx, c), "stream": watch(ctx, c)} {
		if wantDenied(t, err); !errors.Is(err, coord.ErrLimited) {
			t.Errorf("%s: %v: want ErrLimited", name, err)
		}
	}
	if r, err := store.Peek(ctx, coord.Key("grpc", "passthrough:///health.example"), year(2)); err != nil || r.Remaining != 0 {
		t.Errorf("%+v %v: want the permits of the target spent", r, err)
	}
}

func TestOutgoingWaits(t *testing.T) {
	const per = 50 * time.Millisecond
	limit := coord.Limit{Rate: 1, Per: per, Algorithm: coord.TokenBucket}
	c := serve(t, Limits{}, through(Outgoing{Limiter: middlewaretest.Client(t), Limit: limit})...)
	began := time.Now()
	for range 5 {
		if err := check(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if d := time.Since(began); d < 4*per {
		t.Errorf("five calls within %v", d)
	}
}

func TestOutgoingGivesUp(t *testing.T) {
	c := serve(t, Limits{}, through(Outgoing{Limiter: middlewaretest.Client(t), Limit: year(1)})...)
	if err := check(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	err := watch(short, c)
	if wantDenied(t, err); !errors.Is(err, coord.ErrLimited) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v: want ErrLimited and DeadlineExceeded", err)
	}
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("a wait in vain took %v", d)
	}
	ctx, leave := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, leave)
	if code := status.Code(check(ctx, c)); code != codes.Canceled {
		t.Errorf("a caller who leaves: %v", code)
	}
}

func TestOutgoingCodes(t *testing.T) {
	ctx := t.Context()
	past, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		o    Outgoing
		want codes.Code
	}{
		"without a store": {ctx, Outgoing{Limiter: middlewaretest.Over(t, broken{}), Limit: year(1)}, codes.Unavailable},
		"invalid limit":   {ctx, Outgoing{Limiter: middlewaretest.Client(t)}, codes.Internal},
		"too late":        {past, Outgoing{Limiter: middlewaretest.Client(t), Limit: year(1)}, codes.DeadlineExceeded},
		"no key":          {ctx, Outgoing{Limiter: middlewaretest.Over(t, broken{}), Limit: year(1), Key: func(context.Context, string, string) string { return "" }}, codes.OK},
	} {
		if err := tc.o.admit(tc.ctx, "a", "/s/m"); status.Code(err) != tc.want {
			t.Errorf("%s: %v: want %v", name, err, tc.want)
		}
	}
}
