package grpccoord

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/middleware"
)

// Concurrent makes interceptors that let at most so many calls of a key run at a time, over all machines that share the
// store. Semaphore and Key are needed.
//
// A call that finds no permit waits for at most Wait, and then ends with RESOURCE_EXHAUSTED and the time to try again. The
// context of the handler ends when the permit is lost; the call ends with UNAVAILABLE then. The permit is given back when
// the handler returns or panics. When the store is unavailable, calls end with UNAVAILABLE, unless FailOpen is set.
type Concurrent struct {
	// Semaphore is usually client.Semaphore(n), where n is how many permits there are.
	Semaphore coord.Locker
	// Key names the semaphore of a call of a method. "" is a call that needs no permit.
	Key func(ctx context.Context, method string) string
	// Weight is how many permits a call takes; nil or 0 is 1. More than there are ends with INVALID_ARGUMENT.
	Weight func(ctx context.Context, method string) int
	// Wait is how long a call waits for a permit; 0 is not at all.
	Wait time.Duration
	// MaxWaiting is how many calls of this process wait for one key at a time; those that come then are refused at
	// once. 0 is however many.
	MaxWaiting int
	// RetryAfter is what a refusal tells; 0 is one second.
	RetryAfter time.Duration
	// FailOpen runs calls without a permit while the store is unavailable, and logs that once in a while.
	FailOpen bool
	// Options of the lock. WaitAtMost, MaxWaiting and Weight are set by the fields above.
	Options []coord.LockOption
	// Log takes warnings. The default is slog.Default().
	Log *slog.Logger
}

// Unary makes the interceptor of calls. It panics without Semaphore or Key.
func (c Concurrent) Unary() grpc.UnaryServerInterceptor {
	p := c.permits()
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any, err error) {
		setTrailer := func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) } // without a transport there is nobody to tell
		err = p.run(ctx, info.FullMethod, setTrailer, func(ctx context.Context) (err error) {
			answer, err = next(ctx, req)
			return err
		})
		return answer, err
	}
}

// Stream makes the interceptor of streams, which have a permit for as long as they last. It panics without Semaphore
// or Key.
func (c Concurrent) Stream() grpc.StreamServerInterceptor {
	p := c.permits()
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		return p.run(ss.Context(), info.FullMethod, ss.SetTrailer, func(ctx context.Context) error {
			return next(srv, &permitStream{ss, ctx})
		})
	}
}

// permitStream is a stream whose context ends with its permit.
type permitStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *permitStream) Context() context.Context { return s.ctx }

// permits gives calls their permits.
type permits struct {
	Concurrent
	log middleware.Logger
}

func (c Concurrent) permits() *permits {
	if c.Semaphore == nil || c.Key == nil {
		panic("grpccoord: Concurrent needs a Semaphore and a Key")
	}
	if c.RetryAfter <= 0 {
		c.RetryAfter = time.Second
	}
	return &permits{Concurrent: c, log: middleware.Logger{Log: c.Log}}
}

// run runs a call with a permit, or says why not.
func (p *permits) run(ctx context.Context, method string, setTrailer func(metadata.MD), call func(context.Context) error) error {
	key := p.Key(ctx, method)
	if key == "" {
		return call(ctx)
	}
	var own error // what the handler said
	ran, err := p.permit(ctx, key, method).Do(ctx, func(ctx context.Context) error {
		own = call(ctx)
		return nil
	})
	switch {
	case ran && err != nil:
		p.log.Warn(ctx, "coord: a call lost its permit before it had ended", err)
		return status.Error(codes.Unavailable, "the permit of the call was lost")
	case ran:
		return own
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, coord.ErrUnavailable) && p.FailOpen:
		p.log.Warn(ctx, "coord: calls run without a permit: the store is unavailable", err)
		return call(ctx)
	case errors.Is(err, coord.ErrExceedsBound): // Weight is what the client has sent
		return status.Error(codes.InvalidArgument, "the call takes more permits than there are")
	case errors.Is(err, coord.ErrLocked):
		setTrailer(pushback(p.RetryAfter))
		return p.refused().Err()
	}
	p.log.Warn(ctx, "coord: calls are refused: their permits cannot be taken", err)
	if middleware.Mistake(err) {
		return status.Error(codes.Internal, "permits are not set up rightly")
	}
	return status.Error(codes.Unavailable, "permits cannot be taken")
}

// permit is what a call of a method needs.
func (p *permits) permit(ctx context.Context, key, method string) middleware.Permit {
	permit := middleware.Permit{Locker: p.Semaphore, Key: key, Wait: p.Wait, MaxWaiting: p.MaxWaiting, Options: p.Options}
	if p.Weight != nil {
		permit.Weight = p.Weight(ctx, method)
	}
	return permit
}

func (p *permits) refused() *status.Status {
	st := status.New(codes.ResourceExhausted, "as many calls of this kind as may are running")
	if full, err := st.WithDetails(retryInfo(p.RetryAfter)); err == nil {
		return full
	}
	return st
}
