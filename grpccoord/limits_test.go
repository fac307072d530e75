package grpccoord

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/internal/middleware/middlewaretest"
	"github.com/coordgo/coord/internal/testlog"
	"github.com/coordgo/coord/internal/testserver"
	"github.com/coordgo/coord/rules"
)

const checkMethod = "/grpc.health.v1.Health/Check"

// Calls and streams count against the same rules, and a denial says what it is about.
func TestLimits(t *testing.T) {
	c := serve(t, Limits{Limiter: middlewaretest.Client(t), Rules: middlewaretest.Chain(
		t,
		rules.Rule{Name: "checks", Match: rules.Match{RPC: checkMethod}, Limits: []rules.Limit{{Limit: year(2)}}},
		one("all", rules.Everyone(), year(3)),
	)})
	ctx := t.Context()
	for range 2 {
		if err := check(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	if _, violated := wantDenied(t, check(ctx, c)); !slices.Equal(violated, []string{"limit:checks " + year(2).String()}) {
		t.Errorf("violated: %q", violated)
	}
	if err := watch(ctx, c); err != nil {
		t.Errorf("a stream that only the other rule counts: %v", err)
	}
	if _, violated := wantDenied(t, watch(ctx, c)); len(violated) != 1 || !strings.HasPrefix(violated[0], "limit:all ") {
		t.Errorf("violated: %q", violated)
	}
}

// Under concurrency as many calls are admitted as the bound says.
func TestLimitsBound(t *testing.T) {
	const bound, workers, each = 60, 8, 15
	c := serve(t, Limits{Limiter: middlewaretest.Client(t), Rules: middlewaretest.Chain(t, one("all", rules.Everyone(), year(bound)))})
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for range each {
				call := check
				if i%2 == 0 {
					call = watch
				}
				switch err := call(t.Context(), c); status.Code(err) {
				case codes.OK:
					admitted.Add(1)
				case codes.ResourceExhausted:
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if admitted.Load() != bound {
		t.Errorf("%d admitted: want %d", admitted.Load(), bound)
	}
}

// A client with a retry policy comes back when it is told to, not before.
func TestLimitsPushback(t *testing.T) {
	const policy = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 2, "initialBackoff": "0.001s",
		"maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`
	const per = 300 * time.Millisecond
	limit := coord.Limit{Rate: 1, Per: per, Algorithm: coord.TokenBucket}
	l := Limits{Limiter: middlewaretest.Client(t), Rules: middlewaretest.Chain(t, one("all", rules.Everyone(), limit))}
	c := serve(t, l, grpc.WithDefaultServiceConfig(policy))
	began := time.Now()
	for _, call := range []func(context.Context, healthpb.HealthClient) error{check, check, watch} {
		if err := call(t.Context(), c); err != nil {
			t.Errorf("%v: its second attempt was to be admitted", err)
		}
	}
	if d := time.Since(began); d < 2*per {
		t.Errorf("three calls within %v", d)
	}
}

func TestLimitsSubjects(t *testing.T) {
	type call struct {
		peer string
		md   []string
	}
	for name, tc := range map[string]struct {
		subject rules.Subject
		same    bool
		a, b    call
	}{
		"two addresses":          {rules.IP(), false, call{peer: "192.0.2.1"}, call{peer: "192.0.2.2"}},
		"one network of IPv6":    {rules.IP(), true, call{peer: "2001:db8::1"}, call{peer: "2001:db8::2"}},
		"a forged header":        {rules.IP(), true, call{"192.0.2.1", []string{"x-forwarded-for", "198.51.100.1"}}, call{"192.0.2.1", []string{"x-forwarded-for", "198.51.100.2"}}},
		"behind a proxy":         {rules.IP(), false, call{"10.0.0.1", []string{"x-forwarded-for", "198.51.100.1"}}, call{"10.0.0.1", []string{"x-forwarded-for", "198.51.100.2"}}},
		"behind a proxy, forged": {rules.IP(), true, call{"10.0.0.1", []string{"x-forwarded-for", "203.0.113.1, 198.51.100.1"}}, call{"10.0.0.1", []string{"x-forwarded-for", "203.0.113.2, 198.51.100.1"}}},
		"two users":              {rules.User(), false, call{md: []string{"user", "ann"}}, call{md: []string{"user", "bob"}}},
		"two tenants":            {rules.Header("X-Tenant"), false, call{md: []string{"x-tenant", "a"}}, call{md: []string{"x-tenant", "b"}}},
		"two hosts":              {rules.Header("Host"), false, call{md: []string{":authority", "a"}}, call{md: []string{":authority", "b"}}},
		"nobody knows":           {rules.IP(), true, call{}, call{}},
	} {
		t.Run(name, func(t *testing.T) {
			l := Limits{
				Limiter: middlewaretest.Client(t), Rules: middlewaretest.Chain(t, one("r", tc.subject, year(1))), Proxies: httpcoord.Proxies{Trusted: httpcoord.PrivateNetworks()},
				User: func(ctx context.Context) string {
					return strings.Join(metadata.ValueFromIncomingContext(ctx, "user"), ",")
				},
			}.Unary()
			ask := func(c call) codes.Code {
				ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(c.md...))
				if c.peer != "" {
					ctx = peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(c.peer), Port: 4711}})
				}
				_, err := l(ctx, nil, &grpc.UnaryServerInfo{FullMethod: checkMethod}, func(context.Context, any) (any, error) { return nil, nil })
				return status.Code(err)
			}
			if code := ask(tc.a); code != codes.OK {
				t.Fatal(code)
			}
			if code := ask(tc.b); code == codes.ResourceExhausted != tc.same {
				t.Errorf("the other call: %v: want counted together %v", code, tc.same)
			}
		})
	}
}

// Over TCP the address is the peer's.
func TestLimitsOverTCP(t *testing.T) {
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := middlewaretest.Client(t)
	start(t, Limits{Limiter: c, Rules: middlewaretest.Chain(t, one("r", rules.IP(), year(5)))}, on)
	if err := check(t.Context(), dial(t, on.Addr().String())); err != nil {
		t.Fatal(err)
	}
	b := middlewaretest.Chain(t, one("r", rules.IP(), year(5))).Bounds(&rules.Request{RPC: checkMethod, IP: peerAddr(peer.NewContext(t.Context(), &peer.Peer{Addr: on.Addr()}))})
	left, err := c.Peek(t.Context(), b[0].Demand.Key, b[0].Demand.Limit)
	if err != nil || left.Remaining != 4 {
		t.Errorf("of 127.0.0.1: %+v %v: want 4 left", left, err)
	}
}

func TestLimitsOptions(t *testing.T) {
	var out testlog.Buffer
	c := serve(t, Limits{
		Limiter: middlewaretest.Client(t), Rules: httpcoord.Live(func() *rules.Chain { return middlewaretest.Chain(t, one("r", rules.Everyone(), year(10))) }), Log: out.Logger(),
		Permits: func(_ context.Context, method string) int {
			if method == checkMethod {
				return 6
			}
			return 11
		},
	})
	if err := check(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	wantDenied(t, check(t.Context(), c))
	if code := status.Code(watch(t.Context(), c)); code != codes.InvalidArgument {
		t.Errorf("more than the limit ever grants: %v: want INVALID_ARGUMENT", code)
	}
	for name, l := range map[string]Limits{"without its parts": {}, "with a nil Live": {Limiter: middlewaretest.Client(t), Rules: httpcoord.Live(nil)}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Limits %s did not panic", name)
				}
			}()
			l.Stream()
		}()
	}
}

func TestLimitsWithoutStore(t *testing.T) {
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-secret", "hunter2")
	for _, tc := range []struct {
		policy coord.FailurePolicy
		code   codes.Code
		log    string
	}{
		{coord.FailClosed, codes.Unavailable, "limits cannot be checked"},
		{coord.FailOpen, codes.OK, "admitted without their limits"},
	} {
		var out testlog.Buffer
		c := serve(t, Limits{
			Limiter: middlewaretest.Over(t, broken{}, coord.WithFailurePolicy(tc.policy)), Log: out.Logger(),
			Rules: middlewaretest.Chain(t, one("r", rules.Header("X-Secret"), coord.PerMinute(5))),
		})
		for range 10 {
			if code := status.Code(check(ctx, c)); code != tc.code {
				t.Errorf("%v: want %v", code, tc.code)
			}
		}
		if s := out.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, tc.log) || !strings.Contains(s, errBroken.Error()) || strings.Contains(s, "hunter2") {
			t.Errorf("10 calls logged %q: want one line", s)
		}
	}
	var out testlog.Buffer
	m := Limits{Limiter: middlewaretest.Over(t, broken{}), Rules: middlewaretest.Chain(t, one("r", rules.Everyone(), year(1))), Log: out.Logger()}.Unary()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m(gone, nil, &grpc.UnaryServerInfo{}, nil); status.Code(err) != codes.Canceled || out.String() != "" {
		t.Errorf("a client that has gone: %v, logged %q", err, out.String())
	}
}

// A rule may have any name.
func TestDeniedAnyName(t *testing.T) {
	d := rules.Decision{Bounds: []rules.Bound{{Rule: "\xff", Result: coord.Result{RetryAfter: time.Second}}}}
	if st := denied(&d); st.Code() != codes.ResourceExhausted {
		t.Error(st)
	}
}

// How much longer a call takes in process than one without limits.
func BenchmarkLimits(b *testing.B) {
	limits := Limits{Limiter: middlewaretest.Client(b), Rules: middlewaretest.Chain(b, one("address", rules.IP(), year(1<<39)), one("all", rules.Everyone(), year(1<<39)))}
	b.Run("interceptor", func(b *testing.B) {
		m := limits.Unary()
		ctx := peer.NewContext(b.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711}})
		info := &grpc.UnaryServerInfo{FullMethod: checkMethod}
		next := func(context.Context, any) (any, error) { return nil, nil }
		b.ReportAllocs()
		for b.Loop() {
			if _, err := m(ctx, nil, info, next); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("call", func(b *testing.B) {
		bare, limited := serve(b, Limits{}), serve(b, limits)
		testserver.Ratio(b, func() error { return check(b.Context(), bare) }, func() error { return check(b.Context(), limited) })
	})
}

// A store that never answers costs a call no more than Timeout, and then the failure policy decides.
func TestLimitsTimeout(t *testing.T) {
	for policy, want := range map[coord.FailurePolicy]codes.Code{coord.FailOpen: codes.OK, coord.FailClosed: codes.Unavailable} {
		synctest.Test(t, func(t *testing.T) {
			c := middlewaretest.Over(t, middlewaretest.Silent{}, coord.WithFailurePolicy(policy))
			unary := Limits{Limiter: c, Rules: middlewaretest.Chain(t, one("a", rules.IP(), year(1))), Log: slog.New(slog.DiscardHandler)}.Unary()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			_, err := unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a/b"}, func(context.Context, any) (any, error) { return nil, nil })
			if took := time.Since(began); status.Code(err) != want || took < httpcoord.DefaultTimeout || took > httpcoord.DefaultTimeout+200*time.Millisecond {
				t.Errorf("%v after %v: want %v after %v", err, took, want, httpcoord.DefaultTimeout)
			}
		})
	}
}
