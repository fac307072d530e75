package server

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/coordgo/coord/server/coordpb"
)

// request is one by HTTP or by gRPC, as it is told of. Its route is a path with its method, or a method of gRPC.
type request struct {
	route, method, path, caller string
	header                      http.Header // nil: it came by gRPC
	began                       time.Time
	span                        trace.Span // nil: there is none
}

// open are the routes that need no token.
var open = append([]string{
	"GET /livez", "GET /readyz", healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName,
}, pageOpen...)

// often are the routes whose requests are many, and say little where they were answered.
var often = append(slices.Clip(open), envoyRoute, envoyMethod)

// quick are the routes that are not counted: no number of waiting requests may keep a holder from its hold.
var quick = []string{
	"POST /v1/locks/renew", "POST /v1/locks/release", coordpb.Locks_Renew_FullMethodName, coordpb.Locks_Release_FullMethodName,
}

// ownTime are the routes whose operations bound how long they take.
var ownTime = []string{
	"POST /v1/locks/acquire", "POST /v1/limits/take", coordpb.Locks_Acquire_FullMethodName, coordpb.Limits_Take_FullMethodName,
}

// gated serves a request of a caller that is known, and has not too many of them.
func (s *Server) gated(ctx context.Context, q *request, who func() (*caller, error), serve func(context.Context) error) error {
	if slices.Contains(open, q.route) {
		return serve(ctx)
	}
	c, err := who()
	if err != nil {
		return err
	}
	q.caller = c.name
	if !slices.Contains(quick, q.route) {
		defer c.requests.Add(-1)
		if err := s.enter(&c.requests); err != nil {
			return err
		}
	}
	return serve(s.traced(context.WithValue(ctx, callerKey{}, c), q))
}

// enter counts a request that is under way among those of its kind, also one that it refuses.
func (s *Server) enter(of *atomic.Int64) error {
	if of.Add(1) > int64(s.cfg.MaxRequests) {
		return errBusy
	}
	return nil
}

// callerKey is the key of the caller in the context of a request.
type callerKey struct{}

func callerIn(ctx context.Context) *caller { return ctx.Value(callerKey{}).(*caller) }

// inTime is ctx with a bound, unless the route has its own.
func (s *Server) inTime(ctx context.Context, route string) (context.Context, context.CancelFunc) {
	if slices.Contains(ownTime, route) || route == envoyMethod && s.envoy != nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTime)
}

// panicked is the error of a panic. Goroutines that are no request's recover too, for what others hold has to go on.
func (s *Server) panicked(p any) error {
	s.log.Error("coord serve: a panic", "panic", p, "stack", string(debug.Stack()))
	return errPanic
}

// outcome is what became of a request: its status of HTTP or of gRPC.
type outcome struct {
	status   slog.Value
	code     attribute.KeyValue
	answered bool // as asked, or that it is denied
	failed   bool // by a fault of the server or of the store
}

// told writes a request down. One of those that are often is of interest if it was not answered.
func (s *Server) told(ctx context.Context, q *request, o outcome) {
	took, level := time.Since(q.began), slog.LevelInfo
	if o.answered && slices.Contains(often, q.route) {
		level = slog.LevelDebug
	}
	s.meters.request(q.route, o.code, took)
	q.ended(o.code, o.failed)
	if !s.log.Enabled(ctx, level) {
		return
	}
	s.log.LogAttrs(ctx, level, "request", slog.String("method", q.method), slog.String("path", q.path),
		slog.String("caller", q.caller), slog.Attr{Key: "status", Value: o.status}, slog.Duration("took", took))
}
