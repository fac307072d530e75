package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordgo/coord/driver"
)

// errClosing ends the calls under way when the backend is closed. The request
// may have been sent: the outcome is unknown.
var errClosing = errors.New("etcd: backend closed during the call")

// begin refuses a call that comes after Close or after the end of ctx, and
// otherwise gives the context that the call runs under: it ends with ctx and with
// Close.
func (b *backend) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if b.calls.Closed() {
		return nil, nil, driver.ErrClosed
	}
	if ctx.Err() != nil {
		return nil, nil, driver.NotSent(ended(ctx))
	}
	if bound, ok := ctx.(*driver.Bound); ok {
		until, _ := bound.Deadline()
		call, cancel := context.WithDeadline(b.calls.Life(), until)
		return valued{call, ctx}, cancel, nil
	}
	call, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(b.calls.Life(), func() { cancel(errClosing) })
	return call, func() { stop(); cancel(nil) }, nil
}

// valued ends with one context, and has the values of another.
type valued struct {
	context.Context
	values context.Context
}

func (v valued) Value(key any) any {
	if own := v.Context.Value(key); own != nil {
		return own
	}
	return v.values.Value(key)
}

// ended is the error of a call whose ctx has ended, perhaps because the client was closed, or the wait is over.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errClosing) || errors.Is(cause, errOver) {
		return cause
	}
	return ctx.Err()
}

// classify says what an error of the client tells about a request under ctx. What
// the server refused, and what was never sent, was not applied. Of any other error
// the outcome is unknown.
func classify(ctx context.Context, err error) error {
	switch {
	case err == nil || driver.Definite(err):
		return err
	case notApplied(err):
		return driver.NotSent(explain(err))
	}
	return unknown(ctx, err)
}

// unknown is an error of a request under ctx that may have been applied.
func unknown(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		if end := ended(ctx); !errors.Is(err, end) {
			return fmt.Errorf("%w: %w", end, err)
		}
	}
	return err
}

// explain puts what to do in front of a refusal, where that is known.
func explain(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrAuthFailed):
		return fmt.Errorf("wrong user or password: %w", err)
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return fmt.Errorf("the server asks for a user and a password: give them, as in etcd://user:password@host: %w", err)
	}
	return err
}

// named adds to a refusal for lack of permission what the user has to have.
func (b *backend) named(err error) error {
	if !notPermitted(err) {
		return err
	}
	return fmt.Errorf("the user may not read and write under %q: grant it with etcdctl role grant-permission ROLE --prefix readwrite %s: %w", b.names.base, b.names.base, err)
}

// readOnly is classify for a request that changes nothing.
func readOnly(ctx context.Context, err error) error {
	return driver.NotSent(classify(ctx, err))
}

// notApplied reports whether the request certainly had no effect.
func notApplied(err error) bool {
	var server rpctypes.EtcdError
	if errors.As(err, &server) {
		if errors.Is(err, rpctypes.ErrNoSpace) {
			// It says that the quota is used up, which the server finds out before it takes a
			// request in, and once more after it has applied one.
			return false
		}
		// A refusal that the server decided on before or instead of applying. Time-outs
		// and changes of leader are Unavailable or Unknown, and tell nothing.
		switch server.Code() {
		case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.OutOfRange,
			codes.PermissionDenied, codes.Unauthenticated, codes.ResourceExhausted:
			return true
		}
		return false
	}
	s, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch s.Code() {
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return true
	case codes.Unavailable:
		return noConnection(s.Message())
	}
	return false
}

// noConnection knows what gRPC says when there was no connection to send anything
// on. It has no code of its own; a test tells when the words change.
func noConnection(message string) bool {
	for _, begin := range []string{
		"connection error: desc = \"transport: Error while dialing",
		"connection error: desc = \"transport: authentication handshake failed",
		"last connection error: ",
		"last resolver error: ",
		"there is no address available",
		"there is no connection available",
	} {
		if strings.HasPrefix(message, begin) {
			return true
		}
	}
	return false
}

// answerWithin is how long a request may take at first that can be made again. A renewal has a third of the TTL, for a keepalive
// and a proof: with a TTL of 3 s each can meet a member that hangs. A slow but healthy member is rarely as late.
const answerWithin = 500 * time.Millisecond

// again makes a request that does no harm if it is made twice. An attempt that takes longer than answerWithin is given up,
// and the next one goes to another member. Each may take twice as long as the one before, because all members may be slow.
// An attempt that a member breaks off, as one does that is stopped, is made once more at once. before says that an attempt
// before the last one may have been applied, now or later, whatever err is.
func again(ctx context.Context, try func(ctx context.Context) error) (before bool, err error) {
	broken := false
	for patience := answerWithin; ; {
		attempt, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
		err = try(attempt)
		// The server may tell that the time is up before our own clock does.
		silent := attempt.Err() != nil || timeIsUp(err)
		cancel()
		switch {
		case err == nil || ctx.Err() != nil:
			return before, err
		case silent:
			patience *= 2
		case !broken && brokenOff(err):
			broken = true
		default:
			return before, err
		}
		before = before || !notApplied(err)
	}
}

// brokenOff reports whether err says that a member ended a request that had been sent to it: its connection broke, or it has
// no leader.
func brokenOff(err error) bool {
	var server rpctypes.EtcdError
	if errors.As(err, &server) {
		return server.Code() == codes.Unavailable
	}
	return status.Code(err) == codes.Unavailable && !notApplied(err)
}

// timeIsUp reports whether err says that an attempt took too long. Some parts of the server give the error of its context
// without a code.
func timeIsUp(err error) bool {
	s := status.Convert(err)
	return errors.Is(err, context.DeadlineExceeded) || s.Code() == codes.DeadlineExceeded ||
		s.Code() == codes.Unknown && s.Message() == context.DeadlineExceeded.Error()
}

// get makes a read, again and again if need be.
func (b *backend) get(ctx context.Context, r *pb.RangeRequest) (resp *pb.RangeResponse, err error) {
	_, err = again(ctx, func(ctx context.Context) error {
		resp, err = invoke[pb.RangeResponse](ctx, &b.remote, "KV/Range", r)
		b.saw(resp.GetHeader())
		return err
	})
	return resp, readOnly(ctx, b.named(err))
}

// timeToLive asks for the state of a lease.
func (b *backend) timeToLive(ctx context.Context, lease int64) (resp *pb.LeaseTimeToLiveResponse, err error) {
	_, err = again(ctx, func(ctx context.Context) error {
		resp, err = invoke[pb.LeaseTimeToLiveResponse](ctx, &b.remote, "Lease/LeaseTimeToLive", &pb.LeaseTimeToLiveRequest{ID: lease})
		return err
	})
	return resp, readOnly(ctx, err)
}

// grantLease asks for a lease. One whose reply was lost is bound to nothing, and ends by itself.
func (b *backend) grantLease(ctx context.Context, seconds int64) (resp *pb.LeaseGrantResponse, sent time.Time, err error) {
	_, err = again(ctx, func(ctx context.Context) error {
		sent = time.Now()
		resp, err = invoke[pb.LeaseGrantResponse](ctx, &b.remote, "Lease/LeaseGrant", &pb.LeaseGrantRequest{TTL: seconds})
		return err
	})
	return resp, sent, readOnly(ctx, err)
}

// revokeLease gives a lease back.
func (b *backend) revokeLease(ctx context.Context, lease int64) {
	_, _ = invoke[pb.LeaseRevokeResponse](ctx, &b.remote, "Lease/LeaseRevoke", &pb.LeaseRevokeRequest{ID: lease})
}

func (b *backend) sendTxn(ctx context.Context, t *pb.TxnRequest) (*pb.TxnResponse, error) {
	resp, err := invoke[pb.TxnResponse](ctx, &b.remote, "KV/Txn", t)
	b.saw(resp.GetHeader())
	return resp, err
}

// txn makes one transaction.
func (b *backend) txn(ctx context.Context, t *pb.TxnRequest) (*pb.TxnResponse, error) {
	resp, err := b.sendTxn(ctx, t)
	return resp, classify(ctx, b.named(err))
}

// txnAgain makes a transaction that may be made twice. A refusal of the last attempt does not undo those before it.
func (b *backend) txnAgain(ctx context.Context, ops ...*pb.RequestOp) (resp *pb.TxnResponse, err error) {
	before, err := again(ctx, func(ctx context.Context) error {
		resp, err = b.sendTxn(ctx, &pb.TxnRequest{Success: ops})
		return err
	})
	if before && err != nil {
		return nil, unknown(ctx, b.named(err))
	}
	return resp, classify(ctx, b.named(err))
}

// isRefusal reports whether the server, which answers, refuses the user: it is not the right one, or may not do it. A token
// that has expired is no reason: the client library has got another one then.
func isRefusal(err error) bool {
	for _, target := range []error{rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrInvalidAuthToken} {
		if errors.Is(err, target) {
			return true
		}
	}
	return notPermitted(err)
}

// notPermitted reports whether the user may not do it.
func notPermitted(err error) bool {
	return errors.Is(err, rpctypes.ErrPermissionDenied)
}
