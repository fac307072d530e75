package grpccoord

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/middleware/middlewaretest"
	"github.com/coordgo/coord/rules"
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
		if err := callThrough(tc.ctx, t, tc.o); status.Code(err) != tc.want {
			t.Errorf("%s: %v: want %v", name, err, tc.want)
		}
	}
}

// callThrough makes a call that the service answers at once.
func callThrough(ctx context.Context, t *testing.T, o Outgoing) error {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///a", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	return o.Unary()(ctx, "/s/m", nil, nil, cc, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil })
}

// A service that says when to come back is not called before.
func TestOutgoingPauses(t *testing.T) {
	wide, tight := coord.PerSecond(1000), coord.Per(1, time.Hour)
	for name, call := range map[string]func(context.Context, healthpb.HealthClient) error{"call": check, "stream": watch} {
		t.Run(name, func(t *testing.T) {
			store := middlewaretest.Client(t)
			server := Limits{Limiter: middlewaretest.Client(t), Rules: middlewaretest.Chain(t, one("theirs", rules.Everyone(), tight))}
			o := Outgoing{Limiter: store, Limit: wide, FailFast: true, Shared: store}
			c := serve(t, server, through(o)...)
			ctx := t.Context()
			if err := call(ctx, c); err != nil {
				t.Fatal(err)
			}
			err := call(ctx, c)
			if after, _ := wantDenied(t, err); errors.Is(err, coord.ErrLimited) || after < 59*time.Minute {
				t.Fatalf("%v after %v: want the service's own denial", err, after)
			}
			if err := call(ctx, c); !errors.Is(err, coord.ErrLimited) {
				t.Errorf("%v: want it not sent", err)
			}
			short, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			for what, other := range map[string]Outgoing{
				"shares": {Limiter: store, Limit: wide, Shared: store},
				"alone":  {Limiter: store, Limit: wide},
			} {
				err := callThroughKey(short, t, other)
				if paused := errors.Is(err, coord.ErrLimited); paused != (what == "shares") {
					t.Errorf("another machine that %s: %v", what, err)
				}
			}
		})
	}
}

// callThroughKey is callThrough for the target of the others.
func callThroughKey(ctx context.Context, t *testing.T, o Outgoing) error {
	t.Helper()
	o.Key = func(context.Context, string, string) string {
		return coord.Key("grpc", "passthrough:///health.example")
	}
	return callThrough(ctx, t, o)
}

// A denial by another interceptor, inside, is no word of the service.
func TestOutgoingNests(t *testing.T) {
	store := middlewaretest.Client(t)
	key := func(k string) func(context.Context, string, string) string {
		return func(context.Context, string, string) string { return k }
	}
	all := Outgoing{Limiter: store, Limit: year(100), FailFast: true, Key: key("all")}
	one := Outgoing{Limiter: store, Limit: year(1), FailFast: true, Key: key("one")}
	c := serve(t, Limits{}, append(through(all), through(one)...)...)
	if err := check(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		wantDenied(t, check(t.Context(), c))
	}
	if r, err := store.Peek(t.Context(), "all", year(100)); err != nil || r.Remaining != 97 {
		t.Errorf("%+v, %v: want three permits of the outer spent, and no pause", r, err)
	}
}

func TestPauseOf(t *testing.T) {
	with := func(code codes.Code, d time.Duration) error {
		st, err := status.New(code, "x").WithDetails(retryInfo(d))
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	for _, tc := range []struct {
		err  error
		want time.Duration
	}{
		{nil, 0},
		{errors.New("x"), 0},
		{status.Error(codes.ResourceExhausted, "x"), 0},
		{with(codes.ResourceExhausted, time.Minute), time.Minute},
		{with(codes.Unavailable, time.Minute), time.Minute},
		{with(codes.Internal, time.Minute), 0},
		{with(codes.Unavailable, -time.Minute), -time.Minute}, // none, to Learn
		{notSent(&coord.Error{RetryAfter: time.Minute, Err: coord.ErrLimited}), 0},
	} {
		if got := pauseOf(tc.err); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.err, got, tc.want)
		}
	}
}
