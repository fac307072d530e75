package grpccoord

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/httpcoord"
	"github.com/coordgo/coord/internal/middleware"
)

// Outgoing makes interceptors for calls of a service that limits its clients, kept over all
// machines that share the store. Each call, and each stream when it begins, takes a permit and
// waits for it as long as its context allows; a wait that cannot end before the deadline
// fails at once. With FailFast nothing waits. A call that was not sent fails with
// RESOURCE_EXHAUSTED and RetryInfo, in an error that also matches coord.ErrLimited.
//
// When the service itself ends a call with RESOURCE_EXHAUSTED or UNAVAILABLE and RetryInfo, calls of
// that key pause for so long, an hour at most, and then take permits again: those of the same
// interceptor, and with Shared those of all machines.
//
// Limiter and Limit are needed.
type Outgoing struct {
	// Limiter is usually a *coord.Client.
	Limiter coord.Limiter
	// Limit of the service.
	Limit coord.Limit
	// Key names the account that a call counts against; "" is none: it is sent at
	// once. The default is the target, as coord.Key("grpc", target).
	Key func(ctx context.Context, target, method string) string
	// FailFast makes a call fail that would have to wait.
	FailFast bool
	// Shared tells other machines, and the other interceptor, of pauses that the service asks
	// for, and is asked for theirs once a second and key. Usually it is the same
	// *coord.Client. The default keeps pauses to each interceptor.
	Shared httpcoord.PauseStore
}

// Unary makes the interceptor of calls.
func (o Outgoing) Unary() grpc.UnaryClientInterceptor {
	out := o.outgoing()
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		key := o.key(ctx, cc.Target(), method)
		if key == "" {
			return next(ctx, method, req, reply, cc, opts...)
		}
		if err := notSent(out.Admit(ctx, key)); err != nil {
			return err
		}
		err := next(ctx, method, req, reply, cc, opts...)
		out.Learn(ctx, key, pauseOf(err))
		return err
	}
}

// Stream makes the interceptor of streams.
func (o Outgoing) Stream() grpc.StreamClientInterceptor {
	out := o.outgoing()
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		key := o.key(ctx, cc.Target(), method)
		if key == "" {
			return next(ctx, desc, cc, method, opts...)
		}
		if err := notSent(out.Admit(ctx, key)); err != nil {
			return nil, err
		}
		stream, err := next(ctx, desc, cc, method, opts...)
		out.Learn(ctx, key, pauseOf(err))
		if err != nil {
			return nil, err
		}
		return &learning{stream, func(err error) { out.Learn(ctx, key, pauseOf(err)) }}, nil
	}
}

// learning is a stream whose end may ask for a pause.
type learning struct {
	grpc.ClientStream
	learn func(error)
}

func (s *learning) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.learn(err)
	return err
}

func (o Outgoing) outgoing() *middleware.Outgoing {
	return &middleware.Outgoing{Op: "call", Limiter: o.Limiter, Limit: o.Limit, FailFast: o.FailFast, Shared: o.Shared, Pauses: new(middleware.Pauses)}
}

func (o Outgoing) key(ctx context.Context, target, method string) string {
	if o.Key != nil {
		return o.Key(ctx, target, method)
	}
	return coord.Key("grpc", target)
}

// pauseOf is what the service asks for by the end of a call; 0 is nothing.
func pauseOf(err error) time.Duration {
	if _, ours := errors.AsType[*callError](err); ours { // another interceptor's: nothing was sent
		return 0
	}
	st, ok := status.FromError(err)
	if err == nil || !ok || st.Code() != codes.ResourceExhausted && st.Code() != codes.Unavailable {
		return 0
	}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// callError is an error of coord that is a status of gRPC too.
type callError struct {
	error
	status *status.Status
}

func (e *callError) Unwrap() error { return e.error }

// GRPCStatus is for status.FromError.
func (e *callError) GRPCStatus() *status.Status { return e.status }

// notSent gives err a status.
func notSent(err error) error {
	if err == nil {
		return nil
	}
	code := codes.Unavailable
	switch {
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, coord.ErrLimited):
		code = codes.ResourceExhausted
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case middleware.Mistake(err):
		code = codes.Internal
	}
	st := status.New(code, err.Error())
	if e, ok := errors.AsType[*coord.Error](err); ok && code == codes.ResourceExhausted && e.RetryAfter > 0 {
		if full, err := st.WithDetails(retryInfo(e.RetryAfter)); err == nil { // else the status alone
			st = full
		}
	}
	return &callError{err, st}
}
