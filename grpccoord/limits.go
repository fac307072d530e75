package grpccoord

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/internal/middleware"
	"github.com/coordgo/coord/rules"
)

// Limits makes interceptors that admit calls as rules allow. Limiter and Rules are needed; the
// other fields have defaults.
//
// Under coord.FailOpen, a store that is unavailable lets calls through, and that is logged once in a
// while; under FailClosed, the default, they end with UNAVAILABLE.
type Limits struct {
	// Limiter is usually a *coord.Client.
	Limiter rules.Limiter
	// Rules say which limits a call counts against: a *rules.Chain, or
	// httpcoord.Live.
	Rules httpcoord.Rules
	// Proxies find the client's address for rules that count by it; their header is looked
	// up in the metadata. The default is the address that the connection comes
	// from.
	Proxies httpcoord.Proxies
	// User finds who the call is from, for rules that count by user. It must come from
	// authentication, not from what a client may claim. "" is nobody: all of these count together. Without User, a call that
	// a rule counts by user ends with INTERNAL.
	User func(ctx context.Context) string
	// Funcs are the functions for subjects of [rules.Func], by name. A call that needs one that is not here ends
	// with INTERNAL.
	Funcs map[string]func(ctx context.Context) string
	// Permits is how many a call of a method takes; 0 is 1. The default is 1.
	Permits func(ctx context.Context, method string) int
	// Shadow is called, before the call is served, of each rule in shadow mode that would have denied it. The default is a
	// line in the log, of each rule once in a while. A rule that cannot be checked is logged.
	Shadow func(ctx context.Context, s *rules.Shadow)
	// Timeout is the longest that a call waits for the store. Then the failure policy decides: a limit must not
	// cost more than it protects. If one has waited that long while nobody was answered, one call at a time asks the
	// store until it answers, and the policy decides the others at once.
	// 0 is httpcoord.DefaultTimeout; with a negative one, each call waits as long as its context allows.
	Timeout time.Duration
	// Log takes warnings. The default is slog.Default().
	Log *slog.Logger
}

// Unary makes the interceptor of calls. It panics without Limiter or Rules.
func (l Limits) Unary() grpc.UnaryServerInterceptor {
	m := l.limited()
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		err := m.admit(ctx, info.FullMethod, func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) }) // without a transport there is nobody to tell
		if err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

// Stream makes the interceptor of streams. It panics without Limiter or Rules.
func (l Limits) Stream() grpc.StreamServerInterceptor {
	m := l.limited()
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if err := m.admit(ss.Context(), info.FullMethod, ss.SetTrailer); err != nil {
			return err
		}
		return next(srv, ss)
	}
}

// limited admits calls.
type limited struct {
	Limits
	breaker middleware.Breaker
	log     middleware.Logger
}

func (l Limits) limited() *limited {
	if l.Limiter == nil || l.Rules == nil {
		panic("grpccoord: Limits needs a Limiter and Rules")
	}
	if live, ok := l.Rules.(httpcoord.Live); ok && live == nil {
		panic("grpccoord: Limits needs Rules, and Live is nil")
	}
	return &limited{
		Limits: l, log: middleware.Logger{Log: l.Log},
		breaker: middleware.Breaker{Rules: l.Rules, Limiter: l.Limiter, Timeout: l.Timeout},
	}
}

// admit takes what a call counts against, or says why not.
func (l *limited) admit(ctx context.Context, method string, setTrailer func(metadata.MD)) error {
	d, err := l.breaker.Allow(ctx, l.request(ctx, method))
	switch {
	case err != nil:
		return l.fail(ctx, err)
	case !d.Allowed:
		setTrailer(pushback(d.RetryAfter()))
		return denied(&d).Err()
	}
	if err := d.Degraded(); err != nil {
		l.log.Warn(ctx, "coord: calls are admitted without their limits: the store is unavailable", err)
	}
	var deny func(*rules.Shadow)
	if l.Shadow != nil {
		deny = func(s *rules.Shadow) { l.Shadow(ctx, s) }
	}
	l.log.Shadows(ctx, &d, deny)
	return nil
}

// request is a call in the terms of rules.
func (l *limited) request(ctx context.Context, method string) *rules.Request {
	md, _ := metadata.FromIncomingContext(ctx)
	r := &rules.Request{RPC: method, IP: l.Proxies.Addr(peerAddr(ctx), md.Get), Header: header(md)}
	if r.NoUser = l.User == nil; !r.NoUser {
		r.User = l.User(ctx)
	}
	r.Func = func(name string) (string, bool) {
		f := l.Funcs[name]
		if f == nil {
			return "", false
		}
		return f(ctx), true
	}
	if l.Permits != nil {
		r.N = l.Permits(ctx, method)
	}
	return r
}

// header looks metadata up as rules name headers.
func header(md metadata.MD) func(string) string {
	return func(name string) string {
		if strings.EqualFold(name, "host") {
			name = ":authority"
		}
		if values := md.Get(name); len(values) > 0 {
			return values[0]
		}
		return ""
	}
}

// peerAddr is where the connection comes from; the zero Addr if that is no address of IP.
func peerAddr(ctx context.Context) netip.Addr {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return netip.Addr{}
	}
	if tcp, ok := p.Addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr()
	}
	ap, _ := netip.ParseAddrPort(p.Addr.String()) // the zero value is the answer to anything else
	return ap.Addr()
}

// fail is the end of a call that could not be decided.
func (l *limited) fail(ctx context.Context, err error) error {
	if ctx.Err() != nil { // the client has gone: nothing to report
		return status.FromContextError(ctx.Err()).Err()
	}
	if errors.Is(err, coord.ErrExceedsBurst) { // Permits is what the client has sent
		return status.Error(codes.InvalidArgument, "the call takes more permits than its limit ever grants")
	}
	l.log.Warn(ctx, "coord: calls are refused: their limits cannot be checked", err)
	if middleware.Mistake(err) {
		return status.Error(codes.Internal, "limits are not set up rightly")
	}
	return status.Error(codes.Unavailable, "limits cannot be checked")
}

// denied is the status of a call over its limits (google/rpc/error_details.proto).
func denied(d *rules.Decision) *status.Status {
	quota := &errdetails.QuotaFailure{}
	for i := range d.Bounds {
		if b := &d.Bounds[i]; b.Result.RetryAfter > 0 {
			quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{
				Subject: "limit:" + b.Name(), Description: b.Demand.Limit.String(),
			})
		}
	}
	st := status.New(codes.ResourceExhausted, "over the limit")
	full, err := st.WithDetails(retryInfo(d.RetryAfter()), quota)
	if err != nil { // names that are no UTF-8
		return st
	}
	return full
}

func retryInfo(d time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
}

// pushback tells clients with a retry policy when to try again (gRFC A6).
func pushback(d time.Duration) metadata.MD {
	ms := (d + time.Millisecond - 1) / time.Millisecond
	return metadata.Pairs("grpc-retry-pushback-ms", strconv.FormatInt(max(int64(ms), 1), 10))
}
