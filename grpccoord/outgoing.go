package grpccoord

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/middleware"
)

// Outgoing makes interceptors for calls of a service that limits its clients, kept over all
// machines that share the store. Each call, and each stream when it begins, takes a permit and
// waits for it as long as its context allows; a wait that cannot end before the deadline
// fails at once. With FailFast nothing waits. A call that was not sent fails with
// RESOURCE_EXHAUSTED and RetryInfo, in an error that also matches coord.ErrLimited.
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
}

// Unary makes the interceptor of calls.
func (o Outgoing) Unary() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if err := o.admit(ctx, cc.Target(), method); err != nil {
			return err
		}
		return next(ctx, method, req, reply, cc, opts...)
	}
}

// Stream makes the interceptor of streams.
func (o Outgoing) Stream() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if err := o.admit(ctx, cc.Target(), method); err != nil {
			return nil, err
		}
		return next(ctx, desc, cc, method, opts...)
	}
}

// admit takes a permit.
func (o Outgoing) admit(ctx context.Context, target, method string) error {
	key := coord.Key("grpc", target)
	if o.Key != nil {
		key = o.Key(ctx, target, method)
	}
	if key == "" {
		return nil
	}
	if !o.FailFast {
		return notSent(o.Limiter.Wait(ctx, key, o.Limit))
	}
	r, err := o.Limiter.Allow(ctx, key, o.Limit)
	if err == nil && !r.Allowed {
		err = &coord.Error{Op: "call", Key: key, RetryAfter: r.RetryAfter, Err: coord.ErrLimited}
	}
	return notSent(err)
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
