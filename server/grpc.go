package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/coordgo/coord/server/coordpb"
)

// GRPC is what answers by gRPC. Other services may be registered on it before [Server.Serve]: their calls have the same
// callers, bounds, log and metrics. A program that embeds a Server may serve it on a listener of its own; its ServeHTTP
// does not bound how long a message takes. If the configuration has grpc_listen, it has goroutines from New on: a program
// that does not call Serve has to stop it. A handler of another service has to return when its context ends, for
// [Server.Serve] waits for it.
func (s *Server) GRPC() *grpc.Server { return s.grpc }

// What a connection of gRPC has. One that shows no life for pingTime is asked for it, and is closed if it does not
// answer within pongTime, or if it has no call for idleTime.
const (
	pingTime  = 10 * time.Second
	pongTime  = 5 * time.Second
	minPing   = 5 * time.Second // who pings more often is sent away
	idleTime  = 2 * time.Minute
	maxHeader = 16 << 10
	buffer    = 4 << 10  // for reading, and one for writing
	ahead     = 64 << 10 // what may be under way to a stream, and to a connection, before it is read

	// workers are goroutines that do one call after the other, and keep their stacks: a new goroutine for each call grows
	// its own, which was an eighth of the time. Where all of them are busy, a call has a new one.
	workers = 128

	// renewals are the calls of a connection besides max_requests, which are not counted.
	renewals = 1000
)

func (s *Server) newGRPC() *grpc.Server {
	opts := []grpc.ServerOption{
		grpc.InTapHandle(s.hurried),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.streamed),
		grpc.MaxRecvMsgSize(maxBody),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxConcurrentStreams(uint32(s.cfg.MaxRequests + renewals)),
		grpc.ConnectionTimeout(ioTime),
		grpc.ReadBufferSize(buffer),
		grpc.WriteBufferSize(buffer),
		grpc.StaticStreamWindowSize(ahead),
		grpc.StaticConnWindowSize(ahead),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTime, Time: pingTime, Timeout: pongTime}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
	}
	if s.cfg.GRPCListen != "" { // else it may never serve, and so never stop them
		opts = append(opts, grpc.NumStreamWorkers(workers))
	}
	if s.secure != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(s.secure)))
	}
	g := grpc.NewServer(opts...)
	coordpb.RegisterLocksServer(g, &locksService{s: s})
	coordpb.RegisterLimitsServer(g, &limitsService{s: s})
	healthpb.RegisterHealthServer(g, &healthService{s: s})
	reflection.Register(g)
	return g
}

// unary does one call. A panic ends that call alone.
func (s *Server) unary(ctx context.Context, q any, info *grpc.UnaryServerInfo, do grpc.UnaryHandler) (answer any, err error) {
	paceOf(ctx).begun()
	err = s.call(ctx, info.FullMethod, func(ctx context.Context) (err error) {
		ctx, cancel := s.inTime(ctx, info.FullMethod)
		defer cancel()
		answer, err = do(ctx, q)
		return err
	})
	return answer, err
}

// streamed does a call that is a stream.
func (s *Server) streamed(of any, stream grpc.ServerStream, info *grpc.StreamServerInfo, do grpc.StreamHandler) error {
	return s.call(stream.Context(), info.FullMethod, func(ctx context.Context) error {
		return do(of, &pacedStream{stream, ctx, paceOf(ctx)})
	})
}

// call does a call, and tells of it. Once the call's own end has come, its error is no other one.
func (s *Server) call(ctx context.Context, method string, do func(context.Context) error) (err error) {
	q := &request{route: method, method: "gRPC", path: method, began: time.Now()}
	defer func() {
		if p := recover(); p != nil {
			err = s.panicked(p)
		}
		if ended := ctx.Err(); err != nil && ended != nil {
			err = status.FromContextError(ended).Err()
		}
		err = statusOf(err)
		code := status.Code(err)
		s.told(ctx, q, outcome{
			slog.StringValue(code.String()), attribute.Int("rpc.grpc.status_code", int(code)), code == codes.OK, slices.Contains(faults, code),
		})
	}()
	return s.gated(ctx, q, func() (*caller, error) { return s.callers.known(shown(ctx)) }, do)
}

// faults are the codes that are a fault of the server or of the store.
var faults = []codes.Code{
	codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss,
}

// shown is what a caller shows of itself.
func shown(ctx context.Context) (host, authorization string, over *tls.ConnectionState) {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			over = &info.State
		}
	}
	return shownAs(ctx, ":authority"), shownAs(ctx, "authorization"), over
}

func shownAs(ctx context.Context, key string) string {
	if values := metadata.ValueFromIncomingContext(ctx, key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// healthService is /readyz by gRPC. It has no stream, which strangers could open without end.
type healthService struct {
	healthpb.UnimplementedHealthServer
	s *Server
}

func (h *healthService) Check(ctx context.Context, q *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	// "ratelimit" is what envoyproxy/ratelimit calls itself.
	if q.GetService() != "" && (q.GetService() != "ratelimit" || h.s.envoy == nil) {
		if _, ok := h.s.grpc.GetServiceInfo()[q.GetService()]; !ok {
			return nil, status.Error(codes.NotFound, "no such service")
		}
	}
	if h.s.ready(ctx) != nil {
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}, nil
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}

// pace bounds how long messages take on their way. What comes too late ends the call, and so does a message of a stream
// that is not taken. An answer that ends its call may wait to be taken: it counts as a call of its connection until then.
type pace struct {
	end   context.CancelFunc
	first *time.Timer // ends the call, unless its first message comes
	watch func() bool // stops watching for a call that ends before its first message, which then needs no timer
}

type paceKey struct{}

// strangerTime bounds how long the first message of who is no caller may take.
const strangerTime = time.Second

// hurried gives a call its pace, before its first message is there. It refuses nobody: package grpc would keep the
// context of such a call.
func (s *Server) hurried(ctx context.Context, _ *tap.Info) (context.Context, error) {
	bound := ioTime
	if _, err := s.callers.known(shown(ctx)); err != nil {
		bound = strangerTime
	}
	ctx, cancel := context.WithCancel(ctx)
	first := time.AfterFunc(bound, cancel)
	watch := context.AfterFunc(ctx, func() { first.Stop() })
	return context.WithValue(ctx, paceKey{}, &pace{cancel, first, watch}), nil
}

// paceOf is nil for calls that did not come by a listener.
func paceOf(ctx context.Context) *pace {
	p, _ := ctx.Value(paceKey{}).(*pace)
	return p
}

// begun is called when the first message is there.
func (p *pace) begun() {
	if p != nil {
		p.first.Stop()
		p.watch()
	}
}

// sending is called before a message is sent, and its result when the caller has taken enough of the messages before.
func (p *pace) sending() (sent func() bool) {
	if p == nil {
		return func() bool { return true }
	}
	return time.AfterFunc(ioTime, p.end).Stop
}

// pacedStream is a stream of a caller.
type pacedStream struct {
	grpc.ServerStream
	ctx  context.Context
	pace *pace
}

func (p *pacedStream) Context() context.Context { return p.ctx }

func (p *pacedStream) RecvMsg(m any) error {
	err := p.ServerStream.RecvMsg(m)
	p.pace.begun()
	return err
}

func (p *pacedStream) SendMsg(m any) error {
	sent := p.pace.sending()
	defer sent()
	return p.ServerStream.SendMsg(m)
}
