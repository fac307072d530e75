package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/server/coordpb"
)

// wire is a server that answers by gRPC inside the process, so that time may be fake.
type wire struct {
	*kit
	l   *bufconn.Listener
	end func() error // ends the server, and gives what Serve has returned
}

func startGRPC(t *testing.T, text string) *wire {
	t.Helper()
	return start(t, text).wire()
}

// wire serves k.
func (k *kit) wire() *wire {
	w := &wire{kit: k, l: bufconn.Listen(64 << 10)}
	ctx, cancel := context.WithCancel(k.t.Context())
	served := make(chan error, 1)
	go func() { served <- w.Serve(ctx, &pipes{make(chan net.Conn), make(chan struct{})}, w.l) }()
	w.end = sync.OnceValue(func() error { cancel(); return <-served })
	k.t.Cleanup(func() { _ = w.end() }) // with an error where a test leaves holds
	return w
}

// client is a program that calls.
type client struct {
	coordpb.LocksClient
	coordpb.LimitsClient
	health healthpb.HealthClient
	*grpc.ClientConn
}

func newClient(t *testing.T, target string, opts ...grpc.DialOption) *client {
	t.Helper()
	cc, err := grpc.NewClient(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return &client{coordpb.NewLocksClient(cc), coordpb.NewLimitsClient(cc), healthpb.NewHealthClient(cc), cc}
}

// dial connects a client that shows a token, if it is given one.
func (w *wire) dial(token string, opts ...grpc.DialOption) *client {
	w.t.Helper()
	return newClient(w.t, "passthrough:///localhost", append(opts, w.in(), showing(token), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
}

func (w *wire) in() grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return w.l.DialContext(ctx) })
}

// showing sends a token with each call.
func showing(token string) grpc.DialOption {
	return grpc.WithPerRPCCredentials(tokenOf(token))
}

type tokenOf string

func (tokenOf) RequireTransportSecurity() bool { return false }

func (t tokenOf) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if t == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}

// wantCode checks the code of an error, and the one for programs.
func wantCode(t *testing.T, err error, code codes.Code, reason string) {
	t.Helper()
	info, _ := detailsOf(err)
	if status.Code(err) != code || info.GetReason() != reason {
		t.Fatalf("%v %v: want %v %q", err, info, code, reason)
	}
}

func detailsOf(err error) (info *errdetails.ErrorInfo, retry *errdetails.RetryInfo) {
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		}
	}
	return info, retry
}

// done fails the test on an error.
func done[A any](a A, err error) func(t *testing.T) A {
	return func(t *testing.T) A {
		t.Helper()
		if err != nil {
			t.Fatalf("%v", err)
		}
		return a
	}
}

// A hold from its beginning to its end, and what an operator sees of it.
func TestGRPCLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, "")
		c, ctx := w.dial(""), t.Context()
		q := &coordpb.AcquireRequest{Key: "job", TtlMs: 10_000, RequestId: "r1-0123456789abc", Name: "ann"}
		a := done(c.Acquire(ctx, q))(t)
		if left := ms(a.GetRemainingMs()); left > 10*time.Second || left < 9700*time.Millisecond || a.GetTtlMs() != 10_000 {
			t.Errorf("%v", a)
		}
		if keys := a.GetKeys(); len(keys) != 1 || keys[0].GetKey() != "job" || keys[0].GetToken() != a.GetToken() || a.GetToken() < 1 {
			t.Errorf("keys %v, token %d", keys, a.GetToken())
		}
		if again := done(c.Acquire(ctx, q))(t); again.GetId() != a.GetId() {
			t.Errorf("a repeated request got %v, the first %v", again, a)
		}
		_, err := c.Acquire(ctx, &coordpb.AcquireRequest{Key: "job"})
		wantCode(t, err, codes.Aborted, "locked")
		if info, _ := detailsOf(err); info.GetMetadata()["key"] != "job" || info.GetDomain() != "coord" {
			t.Errorf("the refusal says %v", info)
		}
		time.Sleep(6 * time.Second)
		if left := done(c.Renew(ctx, &coordpb.RenewRequest{Id: a.GetId()}))(t).GetRemainingMs(); left < 5000 {
			t.Errorf("renewed: %d ms", left)
		}
		holders := done(c.Inspect(ctx, &coordpb.InspectRequest{Key: "job"}))(t).GetHolders()
		if len(holders) != 1 || holders[0].GetName() != "ann" || holders[0].GetMode() != coordpb.Mode_MODE_EXCLUSIVE || holders[0].GetToken() != a.GetToken() ||
			holders[0].GetSince().AsTime().IsZero() {
			t.Errorf("holders %v", holders)
		}
		if keys := done(c.List(ctx, &coordpb.ListRequest{Prefix: "j"}))(t).GetKeys(); !slices.Equal(keys, []string{"job"}) {
			t.Errorf("listed %q", keys)
		}
		for range 2 {
			if r := done(c.Release(ctx, &coordpb.ReleaseRequest{Id: a.GetId()}))(t); !r.GetFreed() {
				t.Error("released, not freed")
			}
		}
		_, err = c.Renew(ctx, &coordpb.RenewRequest{Id: a.GetId()})
		wantCode(t, err, codes.FailedPrecondition, "not_held")
	})
}

// Modes and several keys.
func TestGRPCModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, "")
		c, ctx := w.dial(""), t.Context()
		done(c.Acquire(ctx, &coordpb.AcquireRequest{Keys: []string{"b", "a"}, Mode: coordpb.Mode_MODE_READ}))(t)
		done(c.Acquire(ctx, &coordpb.AcquireRequest{Key: "a", Mode: coordpb.Mode_MODE_READ}))(t)
		_, err := c.Acquire(ctx, &coordpb.AcquireRequest{Key: "a", Mode: coordpb.Mode_MODE_WRITE})
		wantCode(t, err, codes.Aborted, "locked")
		done(c.Acquire(ctx, &coordpb.AcquireRequest{Key: "p", Mode: coordpb.Mode_MODE_PERMITS, Permits: 3, Weight: 2}))(t)
		_, err = c.Acquire(ctx, &coordpb.AcquireRequest{Key: "p", Mode: coordpb.Mode_MODE_PERMITS, Permits: 3, Weight: 2})
		wantCode(t, err, codes.Aborted, "locked")
		_, err = c.Acquire(ctx, &coordpb.AcquireRequest{Key: "p", Mode: 7})
		wantCode(t, err, codes.InvalidArgument, "invalid")
		holders := done(c.Inspect(ctx, &coordpb.InspectRequest{Key: "p"}))(t).GetHolders()
		if len(holders) != 1 || holders[0].GetMode() != coordpb.Mode_MODE_PERMITS || holders[0].GetWeight() != 2 || holders[0].GetOf() != 3 {
			t.Errorf("holders %v", holders)
		}
	})
}

// Permits are taken, seen, debited and given back.
func TestGRPCLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, called+"    - {name: x, token: \"xxx-xxx-xxx-xxx-xxx\", allow: [{rights: [read]}]}\nrules: [{name: r, subject: user, limits: [5/1s]}]\n")
		c, ctx := w.dial("all-all-all-all-all"), t.Context()
		web, other := &coordpb.Account{Key: "web"}, &coordpb.Account{Key: "other"}
		n := func(n int64) *int64 { return &n }
		take := func(demands ...*coordpb.Demand) *coordpb.TakeAnswer {
			t.Helper()
			return done(c.Take(ctx, &coordpb.TakeRequest{Demands: demands}))(t)
		}
		if a := take(&coordpb.Demand{Account: web}); !a.GetAllowed() || a.GetGranted() != 1 || a.GetLimits()[0].GetRemaining() != 8 || a.GetLimits()[0].GetLimit() != "9/1s" {
			t.Errorf("one: %v", a)
		}
		if a := take(&coordpb.Demand{Account: web, N: n(9)}); a.GetAllowed() || a.GetRetryAfterMs() < 1 {
			t.Errorf("nine of eight: %v", a)
		}
		if a := take(&coordpb.Demand{Account: web, N: n(2)}, &coordpb.Demand{Account: other, N: n(3)}); !a.GetAllowed() || len(a.GetLimits()) != 2 {
			t.Errorf("both: %v", a)
		}
		if a := take(&coordpb.Demand{Account: &coordpb.Account{Rule: "r", Subject: []string{"ann"}}}); !a.GetAllowed() || a.GetLimits()[0].GetKey() != "rule/r/user/ann" {
			t.Errorf("by a rule: %v", a)
		}
		if a := done(c.Take(ctx, &coordpb.TakeRequest{Demands: []*coordpb.Demand{{Account: web, N: n(9)}}, AtMost: true}))(t); a.GetGranted() != 6 {
			t.Errorf("at most nine of six: %v", a)
		}
		if a := done(c.Take(ctx, &coordpb.TakeRequest{Demands: []*coordpb.Demand{{Account: web}}, WaitMs: 5000}))(t); !a.GetAllowed() {
			t.Errorf("waited: %v", a)
		}
		for _, q := range []*coordpb.TakeRequest{{}, {Demands: []*coordpb.Demand{{}}}, {Demands: []*coordpb.Demand{{Account: web, N: n(0)}}}, {Demands: []*coordpb.Demand{{Account: web, N: n(1 << 62)}}}} {
			_, err := c.Take(ctx, q)
			wantCode(t, err, codes.InvalidArgument, "invalid")
		}
		before := done(c.Peek(ctx, &coordpb.PeekRequest{Account: other}))(t).GetLimits()[0].GetRemaining()
		if a := done(c.Charge(ctx, &coordpb.ChargeRequest{Demand: &coordpb.Demand{Account: other, N: n(4)}}))(t); a.GetLimits()[0].GetRemaining() != before-4 {
			t.Errorf("charged: %v of %d", a, before)
		}
		if a := done(c.Settle(ctx, &coordpb.SettleRequest{Account: other, Estimated: 4, Used: 1}))(t); a.GetLimits()[0].GetRemaining() != before-1 {
			t.Errorf("settled: %v of %d", a, before)
		}
		if a := done(c.Reset(ctx, &coordpb.ResetRequest{Account: other}))(t); a.GetLimits()[0].GetRemaining() != 9 {
			t.Errorf("reset: %v", a)
		}
		_, err := w.dial("xxx-xxx-xxx-xxx-xxx").Reset(ctx, &coordpb.ResetRequest{Account: other})
		wantCode(t, err, codes.PermissionDenied, "forbidden")
	})
}

// A reservation is cancelled once.
func TestGRPCReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, "limits: {b: '1/1s token-bucket burst=1'}")
		c, ctx, b := w.dial(""), t.Context(), &coordpb.Demand{Account: &coordpb.Account{Key: "b"}}
		if a := done(c.Reserve(ctx, &coordpb.ReserveRequest{Demand: b}))(t); a.GetDelayMs() != 0 || a.GetId() != "" {
			t.Errorf("the first: %v", a)
		}
		a := done(c.Reserve(ctx, &coordpb.ReserveRequest{Demand: b}))(t)
		if a.GetDelayMs() != 1000 {
			t.Errorf("the second: %v", a)
		}
		done(c.Cancel(ctx, &coordpb.CancelRequest{Id: a.GetId()}))(t)
		_, err := c.Cancel(ctx, &coordpb.CancelRequest{Id: a.GetId()})
		wantCode(t, err, codes.NotFound, "no_such_reservation")
	})
}

// Each caller may do what the configuration says. Health is open, and reflection is not.
func TestGRPCCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, called)
		web, all, ctx := w.dial("web-web-web-web-web"), w.dial("all-all-all-all-all"), t.Context()
		a := done(web.Acquire(ctx, &coordpb.AcquireRequest{Key: "web/job"}))(t)
		_, err := web.Acquire(ctx, &coordpb.AcquireRequest{Key: "other"})
		wantCode(t, err, codes.PermissionDenied, "forbidden")
		_, err = all.Renew(ctx, &coordpb.RenewRequest{Id: a.GetId()})
		wantCode(t, err, codes.FailedPrecondition, "not_held")
		_, err = web.Break(ctx, &coordpb.BreakRequest{Key: "web/job", Id: "x"})
		wantCode(t, err, codes.PermissionDenied, "forbidden")
		held := done(all.Inspect(ctx, &coordpb.InspectRequest{Key: "web/job"}))(t).GetHolders()[0]
		done(all.Break(ctx, &coordpb.BreakRequest{Key: "web/job", Id: held.GetId(), Mode: held.GetMode(), Now: true}))(t)
		for _, token := range []string{"", "x", "web-web-web-web-we"} {
			stranger := w.dial(token)
			_, err = stranger.Renew(ctx, &coordpb.RenewRequest{Id: a.GetId()})
			wantCode(t, err, codes.Unauthenticated, "unauthenticated")
			_, err = receiveFirst(stranger.Watch(ctx, &coordpb.WatchRequest{Key: "web/job"}))
			wantCode(t, err, codes.Unauthenticated, "unauthenticated")
			_, err = services(ctx, stranger)
			wantCode(t, err, codes.Unauthenticated, "unauthenticated")
			if h := done(stranger.health.Check(ctx, &healthpb.HealthCheckRequest{}))(t); h.GetStatus() != healthpb.HealthCheckResponse_SERVING {
				t.Errorf("health: %v", h)
			}
		}
		_, err = receiveFirst(web.Watch(ctx, &coordpb.WatchRequest{Key: "other"}))
		wantCode(t, err, codes.PermissionDenied, "forbidden")
		names := done(services(ctx, web))(t)
		for _, want := range []string{"coord.v1.Locks", "coord.v1.Limits", "grpc.health.v1.Health"} {
			if !slices.Contains(names, want) {
				t.Errorf("reflection has no %s: %q", want, names)
			}
		}
	})
}

// receiveFirst is the first message of a stream.
func receiveFirst[M any](stream grpc.ServerStreamingClient[M], err error) (*M, error) {
	if err != nil {
		return nil, err
	}
	return stream.Recv()
}

// services are those that reflection lists.
func services(ctx context.Context, c *client) (names []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := reflectionpb.NewServerReflectionClient(c).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	_ = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}) // Recv tells why it failed
	a, err := stream.Recv()
	for _, s := range a.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	return names, err
}

// A server without callers answers who knows it by an address or as localhost.
func TestGRPCOwnHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, "")
		_, err := w.dial("", grpc.WithAuthority("evil.example")).List(t.Context(), &coordpb.ListRequest{})
		wantCode(t, err, codes.PermissionDenied, "forbidden")
		done(w.dial("", grpc.WithAuthority("127.0.0.1:8471")).List(t.Context(), &coordpb.ListRequest{}))(t)
	})
}

// Calls and holds of a caller are bounded, and no number of calls that wait keeps a holder from its hold.
func TestGRPCBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, called)
		web := w.dial("web-web-web-web-web")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := done(web.Acquire(ctx, &coordpb.AcquireRequest{Key: "web/job"}))(t)
		left := make(chan error)
		for range 3 {
			go func() {
				_, err := receiveFirst(web.Watch(ctx, &coordpb.WatchRequest{Key: "web/job"}))
				<-ctx.Done()
				left <- err
			}()
		}
		synctest.Wait()
		_, err := web.Inspect(ctx, &coordpb.InspectRequest{Key: "web/job"})
		wantCode(t, err, codes.ResourceExhausted, "too_many_requests")
		done(web.Renew(ctx, &coordpb.RenewRequest{Id: a.GetId()}))(t)
		done(web.Release(ctx, &coordpb.ReleaseRequest{Id: a.GetId()}))(t)
		cancel()
		for range 3 {
			if err := <-left; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		done(web.Inspect(t.Context(), &coordpb.InspectRequest{Key: "web/job"}))(t)
	})
}

// What is too large, or has a field of a newer client, is refused.
func TestGRPCRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, "limits: {web: 9/1s}")
		c, ctx := w.dial(""), t.Context()
		_, err := c.Acquire(ctx, &coordpb.AcquireRequest{Key: strings.Repeat("x", 70_000)})
		wantCode(t, err, codes.ResourceExhausted, "")
		_, err = c.Acquire(ctx, &coordpb.AcquireRequest{Key: strings.Repeat("x", 1025)})
		wantCode(t, err, codes.InvalidArgument, "invalid")
		newer := protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1)
		q := &coordpb.AcquireRequest{Key: "job"}
		q.ProtoReflect().SetUnknown(newer)
		_, err = c.Acquire(ctx, q)
		wantCode(t, err, codes.InvalidArgument, "invalid")
		inner := &coordpb.Demand{Account: &coordpb.Account{Key: "web"}}
		inner.Account.ProtoReflect().SetUnknown(newer)
		_, err = c.Take(ctx, &coordpb.TakeRequest{Demands: []*coordpb.Demand{{Account: &coordpb.Account{Key: "web"}}, inner}})
		wantCode(t, err, codes.InvalidArgument, "invalid")
		watch := &coordpb.WatchRequest{Key: "job"}
		watch.ProtoReflect().SetUnknown(newer)
		_, err = receiveFirst(c.Watch(ctx, watch))
		wantCode(t, err, codes.InvalidArgument, "invalid")
		if n := w.live; n != 0 {
			t.Errorf("%d are live", n)
		}
	})
}

// Every error of HTTP has a code of gRPC, and says the same.
func TestGRPCErrors(t *testing.T) {
	all := []error{
		errToken, errBusy, errHolds, errDraining, errPanic, errTooLarge, errMediaType, errNoPath, errRequestID, errReservation, errUnknown,
		errReleased, errLost, errExpired, errDrained, errUnconfirmed, invalid("x"), (&caller{}).may("read", "k"),
	}
	for _, k := range kinds {
		all = append(all, k.err)
	}
	for _, err := range all {
		httpStatus, p := problemOf(err)
		st := statusOf(err)
		info, _ := detailsOf(st)
		if codesOf[httpStatus] == codes.OK {
			t.Errorf("%d of HTTP has no code", httpStatus)
		}
		if code := status.Code(st); code == codes.OK || code == codes.Unknown && p.Error.Code != "unknown_outcome" || info.GetReason() != p.Error.Code || status.Convert(st).Message() != p.Error.Message {
			t.Errorf("%v is %v %v", err, st, info)
		}
	}
	later := statusOf(&coord.Error{Err: coord.ErrLimited, Key: "k", RetryAfter: 1500 * time.Millisecond})
	if _, retry := detailsOf(later); retry.GetRetryDelay().AsDuration() != 1500*time.Millisecond {
		t.Errorf("%v: %v", later, retry)
	}
	if other := statusOf(&failure{http.StatusTeapot, "teapot", "x"}); status.Code(other) != codes.Internal {
		t.Errorf("a status that nothing is said of: %v", other)
	}
	if own := status.Error(codes.NotFound, "x"); statusOf(own) != own {
		t.Error("a status is not left as it is")
	}
	if wrapped := statusOf(errors.Join(status.Error(codes.NotFound, "of a store"))); status.Code(wrapped) != codes.Internal {
		t.Errorf("what a store has answered: %v", wrapped)
	}
}

// A refusal fits into the headers of a client that takes 8 KiB, whatever was asked for.
func TestGRPCLongErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startGRPC(t, called).dial("web-web-web-web-web", grpc.WithMaxHeaderListSize(8<<10))
		for _, key := range []string{strings.Repeat("x", 60_000), strings.Repeat("\x01", 1024), strings.Repeat("\u00e4", 512)} {
			_, err := c.Acquire(t.Context(), &coordpb.AcquireRequest{Key: key})
			wantCode(t, err, codes.PermissionDenied, "forbidden")
		}
	})
}

// A call whose deadline comes before the end of its wait says so, also in the log.
func TestGRPCDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		seen := new(bytes.Buffer)
		k.log = slog.New(slog.NewTextHandler(seen, nil))
		k.post(acquirePath, `{"key":"job"}`).ok(t)
		// Over a connection the client may end the call before its deadline comes here.
		ctx, cancel := context.WithTimeout(metadata.NewIncomingContext(t.Context(), metadata.Pairs(":authority", "localhost")), time.Second)
		defer cancel()
		info := &grpc.UnaryServerInfo{FullMethod: coordpb.Locks_Acquire_FullMethodName}
		_, err := k.unary(ctx, &coordpb.AcquireRequest{Key: "job", WaitMs: 10_000}, info, func(ctx context.Context, q any) (any, error) {
			return (&locksService{s: k.Server}).Acquire(ctx, q.(*coordpb.AcquireRequest))
		})
		if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(seen.String(), "status=DeadlineExceeded") {
			t.Errorf("%v:\n%s", err, seen)
		}
	})
}

// Another service on the server has its callers, and a panic ends its call alone.
func TestGRPCPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, called)
		seen := new(bytes.Buffer)
		k.log = slog.New(slog.NewTextHandler(seen, nil))
		var who string
		k.GRPC().RegisterService(&grpc.ServiceDesc{
			ServiceName: "test.Service", HandlerType: (*any)(nil),
			Methods: []grpc.MethodDesc{{MethodName: "Panic", Handler: func(_ any, ctx context.Context, read func(any) error, in grpc.UnaryServerInterceptor) (any, error) {
				if err := read(new(emptypb.Empty)); err != nil {
					return nil, err
				}
				return in(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/test.Service/Panic"}, func(ctx context.Context, _ any) (any, error) {
					who = callerIn(ctx).name
					panic("a test")
				})
			}}},
		}, nil)
		w := k.wire()
		err := w.dial("").Invoke(t.Context(), "/test.Service/Panic", new(emptypb.Empty), new(emptypb.Empty))
		wantCode(t, err, codes.Unauthenticated, "unauthenticated")
		c := w.dial("web-web-web-web-web")
		err = c.Invoke(t.Context(), "/test.Service/Panic", new(emptypb.Empty), new(emptypb.Empty))
		wantCode(t, err, codes.Internal, "internal")
		done(c.Inspect(t.Context(), &coordpb.InspectRequest{Key: "web"}))(t)
		if n := k.callers.byName(t, "web").requests.Load(); n != 0 || who != "web" {
			t.Errorf("%q called, and %d requests are under way", who, n)
		}
		for _, line := range []string{
			`method=gRPC path=/test.Service/Panic caller="" status=Unauthenticated`, `method=gRPC path=/test.Service/Panic caller=web status=Internal`,
			`panic="a test"`, `method=gRPC path=/coord.v1.Locks/Inspect caller=web status=OK`,
		} {
			if !strings.Contains(seen.String(), line) {
				t.Errorf("the log has no %s:\n%s", line, seen)
			}
		}
	})
}

// A call whose message does not come ends, whoever makes it, and soon if nobody knows the caller.
func TestGRPCSlowMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, called)
		web, stranger := w.dial("web-web-web-web-web"), w.dial("")
		const acquire, hold, health = coordpb.Locks_Acquire_FullMethodName, coordpb.Locks_Hold_FullMethodName, healthpb.Health_Check_FullMethodName
		for _, tc := range []struct {
			c      *client
			method string
			bound  time.Duration
		}{{web, acquire, ioTime}, {web, hold, ioTime}, {web, health, ioTime}, {stranger, acquire, strangerTime}, {stranger, health, strangerTime}} {
			began := time.Now()
			stream := done(tc.c.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, tc.method))(t)
			err := stream.RecvMsg(new(coordpb.HoldAnswer))
			if took := time.Since(began); status.Code(err) != codes.Canceled || took != tc.bound {
				t.Errorf("%s: %v after %v: want %v", tc.method, err, took, tc.bound)
			}
		}
		if n := w.callers.byName(t, "web").requests.Load(); n != 0 {
			t.Errorf("%d requests are under way", n)
		}
	})
}

// A call that ends before its message leaves nothing.
func TestGRPCRefusedLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, called)
		of, end := context.WithCancel(t.Context())
		ctx := done(k.hurried(of, nil))(t)
		end()
		synctest.Wait()
		if paceOf(ctx).first.Stop() {
			t.Error("it would still be ended")
		}
	})
}

// Who does not take what a watch tells is not waited for, and who does is told on.
func TestGRPCSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, "")
		c, ctx := w.dial(""), t.Context()
		watch := &coordpb.WatchRequest{Key: "p", Mode: coordpb.Mode_MODE_PERMITS}
		slow, good := done(c.Watch(ctx, watch))(t), done(w.dial("").Watch(ctx, watch))(t)
		told := make(chan int, 1)
		go func() {
			n := 0
			for _, err := good.Recv(); err == nil; _, err = good.Recv() {
				n++
			}
			told <- n
		}()
		synctest.Wait()
		n := 0
		for ; w.callers.everybody.requests.Load() == 2; n++ { // until both streams are full of what was not read
			if n == 500 {
				t.Fatalf("after %d changes both are told", n)
			}
			done(c.Acquire(ctx, &coordpb.AcquireRequest{Key: "p", Mode: coordpb.Mode_MODE_PERMITS, Permits: 1000, TtlMs: maxTTL.Milliseconds()}))(t)
			time.Sleep(ioTime)
		}
		var err error
		for err == nil {
			_, err = slow.Recv()
		}
		wantCode(t, err, codes.Canceled, "")
		if err := w.end(); !errors.Is(err, ErrUndrained) {
			t.Errorf("Serve: %v", err)
		}
		if got := <-told; got < n {
			t.Errorf("who reads was told %d times of %d changes", got, n)
		}
	})
}

// A watch tells of each change, and ends with the server, which says so to those who ask for its health.
func TestGRPCDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, "")
		c, ctx := w.dial(""), t.Context()
		watch := done(c.Watch(ctx, &coordpb.WatchRequest{Key: "job"}))(t)
		if a := done(watch.Recv())(t); len(a.GetHolders()) != 0 || a.GetError() != nil {
			t.Errorf("at first: %v", a)
		}
		a := done(c.Acquire(ctx, &coordpb.AcquireRequest{Key: "job", Name: "ann"}))(t)
		if a := done(watch.Recv())(t); len(a.GetHolders()) != 1 || a.GetHolders()[0].GetName() != "ann" {
			t.Errorf("then: %v", a)
		}
		ended := make(chan error)
		go func() { ended <- w.end() }()
		_, err := watch.Recv()
		wantCode(t, err, codes.Unavailable, "closed")
		if !done(c.Renew(ctx, &coordpb.RenewRequest{Id: a.GetId()}))(t).GetDraining() {
			t.Error("a renewal does not say that the server drains")
		}
		_, err = c.Acquire(ctx, &coordpb.AcquireRequest{Key: "other"})
		wantCode(t, err, codes.Unavailable, "closed")
		if h := done(c.health.Check(ctx, &healthpb.HealthCheckRequest{Service: "coord.v1.Locks"}))(t); h.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("health: %v", h)
		}
		done(c.Release(ctx, &coordpb.ReleaseRequest{Id: a.GetId()}))(t)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A watch tells that the store does not answer, and goes on.
func TestGRPCWatchTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, "url: troubled://")
		watch := done(w.dial("").Watch(t.Context(), &coordpb.WatchRequest{Key: "hidden"}))(t)
		if a := done(watch.Recv())(t); a.GetError().GetCode() != "unavailable" || a.GetError().GetMessage() == "" {
			t.Errorf("%v", a)
		}
		go func() { _ = w.end() }()
		_, err := watch.Recv()
		wantCode(t, err, codes.Unavailable, "closed")
	})
}

// A watch that can never work ends with the reason.
func TestGRPCWatchNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startGRPC(t, "").dial("")
		watch := done(c.Watch(t.Context(), &coordpb.WatchRequest{Key: strings.Repeat("x", 1025)}))(t)
		if a := done(watch.Recv())(t); a.GetError().GetCode() != "invalid" {
			t.Errorf("%v", a)
		}
		_, err := watch.Recv()
		wantCode(t, err, codes.InvalidArgument, "invalid")
	})
}

// A connection whose other side shows no life is closed.
func TestGRPCCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, "")
		c, err := w.l.DialContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
			t.Fatal(err)
		}
		if err := http2.NewFramer(c, nil).WriteSettings(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, _ = io.Copy(io.Discard, c) // pings, and no answer to them
		if took := time.Since(began); took > pingTime+pongTime {
			t.Errorf("closed after %v", took)
		}
	})
}

// Health knows the services, and has no stream.
func TestGRPCHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startGRPC(t, "url: pinged://")
		c, ctx := w.dial(""), t.Context()
		if h := done(c.health.Check(ctx, &healthpb.HealthCheckRequest{}))(t); h.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("while the store does not answer: %v", h)
		}
		_, err := c.health.Check(ctx, &healthpb.HealthCheckRequest{Service: "nothing"})
		wantCode(t, err, codes.NotFound, "")
		_, err = receiveFirst(c.health.Watch(ctx, &healthpb.HealthCheckRequest{}))
		wantCode(t, err, codes.Unimplemented, "")
	})
}

// A server whose time is over ends calls that do not.
func TestGRPCServeCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		k.GRPC().RegisterService(&grpc.ServiceDesc{
			ServiceName: "test.Service", HandlerType: (*any)(nil),
			Streams: []grpc.StreamDesc{{StreamName: "Endless", ClientStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
				_ = stream.RecvMsg(new(emptypb.Empty))
				<-stream.Context().Done()
				return stream.Context().Err()
			}}},
		}, nil)
		w := k.wire()
		stream := done(w.dial("").NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, "/test.Service/Endless"))(t)
		if err := stream.SendMsg(new(emptypb.Empty)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := w.end(); err != nil {
			t.Error(err)
		}
		wantCode(t, stream.RecvMsg(new(emptypb.Empty)), codes.Unavailable, "")
	})
}
