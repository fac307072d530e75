package grpccoord

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/coordgo/coord/coordtest"
	"github.com/coordgo/coord/internal/middleware/middlewaretest"
)

func oneKey(context.Context, string) string { return "reports" }

// callUnary sends one call through an interceptor.
func callUnary(ctx context.Context, i grpc.UnaryServerInterceptor, handler grpc.UnaryHandler) error {
	_, err := i(ctx, nil, &grpc.UnaryServerInfo{FullMethod: checkMethod}, handler)
	return err
}

// At most n calls run at a time, and all run in the end.
func TestConcurrent(t *testing.T) {
	const n = 3
	c := middlewaretest.Client(t)
	i := Concurrent{Semaphore: c.Semaphore(n), Key: oneKey, Wait: 1 << 40}.Unary()
	var inside, most, ran atomic.Int64
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			err := callUnary(t.Context(), i, func(context.Context, any) (any, error) {
				now := inside.Add(1)
				defer inside.Add(-1)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				ran.Add(1)
				return nil, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most.Load() > n || ran.Load() != 30 {
		t.Errorf("%d at once, %d ran: want at most %d, and 30", most.Load(), ran.Load(), n)
	}
}

// A call without a permit is told when to come again; the handler's own error is given as it is.
func TestConcurrentRefuses(t *testing.T) {
	c := coordtest.New(t)
	limited := Concurrent{Semaphore: c.Semaphore(1), Key: oneKey}
	i := limited.Unary()
	own := status.Error(codes.NotFound, "no such report")
	err := callUnary(t.Context(), i, func(ctx context.Context, _ any) (any, error) {
		inner := callUnary(context.Background(), i, func(context.Context, any) (any, error) { return nil, nil })
		if retry, _ := wantDenied(t, inner); retry <= 0 {
			t.Errorf("refused with a pause of %v", retry)
		}
		return nil, own
	})
	if err != own {
		t.Errorf("%v, want the handler's %v", err, own)
	}
	limited.Weight = func(context.Context, string) int { return 2 }
	if err := callUnary(t.Context(), limited.Unary(), nil); status.Code(err) != codes.InvalidArgument {
		t.Errorf("more permits than there are: %v", err)
	}
	c.Cut()
	if err := callUnary(t.Context(), i, nil); status.Code(err) != codes.Unavailable {
		t.Errorf("without the store: %v", err)
	}
	limited.Weight, limited.FailOpen = nil, true
	if err := callUnary(t.Context(), limited.Unary(), func(context.Context, any) (any, error) { return nil, own }); err != own {
		t.Errorf("without the store, open: %v", err)
	}
}

// quietStream is a stream without a transport.
type quietStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *quietStream) Context() context.Context { return s.ctx }
func (*quietStream) SetTrailer(metadata.MD)     {}

// A stream has a permit for as long as it lasts, and its context ends with the permit.
func TestConcurrentStream(t *testing.T) {
	c := coordtest.New(t)
	s := c.Semaphore(1)
	stream := Concurrent{Semaphore: s, Key: oneKey}.Stream()
	info := &grpc.StreamServerInfo{FullMethod: "/watch"}
	err := stream(nil, &quietStream{ctx: t.Context()}, info, func(_ any, ss grpc.ServerStream) error {
		holders, err := s.Holders(ss.Context(), "reports")
		if err != nil || len(holders) != 1 {
			t.Fatalf("%d holders, %v", len(holders), err)
		}
		if err := s.Break(ss.Context(), "reports", holders[0].ID); err != nil {
			t.Fatal(err)
		}
		err = stream(nil, &quietStream{ctx: context.Background()}, info, nil)
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a second stream: %v", err)
		}
		return nil
	})
	if status.Code(err) != codes.Unavailable { // its permit was broken, which Unlock finds
		t.Errorf("%v, want UNAVAILABLE", err)
	}
}
