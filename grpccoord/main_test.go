package grpccoord

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// year is a limit that does not move while a test runs.
func year(n int) coord.Limit { return coord.Per(n, 8000*time.Hour) }

// one is a rule with one limit.
func one(name string, s rules.Subject, l coord.Limit) rules.Rule {
	return rules.Rule{Name: name, Subject: s, Limits: []rules.Limit{{Limit: l}}}
}

// serve runs a server of the health service behind limits, and connects to it.
func serve(t testing.TB, l Limits, opts ...grpc.DialOption) healthpb.HealthClient {
	t.Helper()
	conn := bufconn.Listen(1 << 16)
	start(t, l, conn)
	opts = append(opts, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return conn.DialContext(ctx) }))
	return dial(t, "passthrough:///health.example", opts...)
}

func start(t testing.TB, l Limits, on net.Listener) {
	t.Helper()
	var opts []grpc.ServerOption
	if l.Rules != nil {
		opts = append(opts, grpc.ChainUnaryInterceptor(l.Unary()), grpc.ChainStreamInterceptor(l.Stream()))
	}
	s := grpc.NewServer(opts...)
	healthpb.RegisterHealthServer(s, health.NewServer())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Serve(on); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		s.Stop()
		wg.Wait()
	})
}

func dial(t testing.TB, target string, opts ...grpc.DialOption) healthpb.HealthClient {
	t.Helper()
	cc, err := grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return healthpb.NewHealthClient(cc)
}

func check(ctx context.Context, c healthpb.HealthClient) error {
	_, err := c.Check(ctx, &healthpb.HealthCheckRequest{})
	return err
}

// watch opens a stream and takes its first message.
func watch(ctx context.Context, c healthpb.HealthClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = s.Recv()
	}
	return err
}

// wantDenied checks RESOURCE_EXHAUSTED, and gives its details.
func wantDenied(t *testing.T, err error) (after time.Duration, violated []string) {
	t.Helper()
	st, isStatus := status.FromError(err)
	if !isStatus || st.Code() != codes.ResourceExhausted {
		t.Fatalf("%v: want RESOURCE_EXHAUSTED", err)
	}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			after = d.RetryDelay.AsDuration()
		case *errdetails.QuotaFailure:
			for _, v := range d.Violations {
				violated = append(violated, v.Subject+" "+v.Description)
			}
		default:
			t.Errorf("detail %v", d)
		}
	}
	if after <= 0 {
		t.Errorf("%v: no RetryInfo", err)
	}
	return after, violated
}

var errBroken = errors.New("the store is broken")

// broken is a store that answers nothing.
type broken struct{ driver.Backend }

func (broken) Take(context.Context, string, driver.Limit, []driver.Ask) (driver.Taken, error) {
	return driver.Taken{}, errBroken
}

func (broken) TakeOne(context.Context, string, driver.Limit, driver.Ask) (driver.TakenOne, error) {
	return driver.TakenOne{}, errBroken
}
func (broken) Reset(context.Context, string, driver.Limit) error { return errBroken }
func (broken) Info() driver.Info                                 { return driver.Info{Name: "broken", MaxTTL: time.Hour} }
func (broken) Close() error                                      { return nil }
