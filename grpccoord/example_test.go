package grpccoord_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/grpccoord"
	"github.com/coordgo/coord/rules"
)

// serve runs a health service with opts, and gives a way to reach it.
func serve(opts ...grpc.ServerOption) (dial grpc.DialOption, stop func()) {
	conn := bufconn.Listen(1 << 16)
	server := grpc.NewServer(opts...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(conn)
	}()
	dial = grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return conn.DialContext(ctx) })
	return dial, func() {
		server.Stop()
		<-done
	}
}

func ExampleLimits() {
	client, err := coord.New(memory.New())
	if err != nil {
		panic(err)
	}
	defer client.Close()
	chain, err := rules.New(rules.Rule{
		Name: "checks", Match: rules.Match{RPC: "/grpc.health.v1.Health/*"}, Limits: []rules.Limit{{Limit: coord.PerHour(1)}},
	})
	if err != nil {
		panic(err)
	}
	limits := grpccoord.Limits{Limiter: client, Rules: chain}
	dial, stop := serve(grpc.ChainUnaryInterceptor(limits.Unary()), grpc.ChainStreamInterceptor(limits.Stream()))
	defer stop()

	cc, err := grpc.NewClient("passthrough:///health", dial, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer cc.Close()
	for range 2 {
		_, err := healthpb.NewHealthClient(cc).Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err), len(status.Convert(err).Details()))
	}
	// Output:
	// OK 0
	// ResourceExhausted 2
}

func ExampleOutgoing() {
	client, err := coord.New(memory.New())
	if err != nil {
		panic(err)
	}
	defer client.Close()
	dial, stop := serve()
	defer stop()

	supplier := grpccoord.Outgoing{Limiter: client, Limit: coord.PerMinute(1), FailFast: true}
	cc, err := grpc.NewClient(
		"passthrough:///supplier", dial, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(supplier.Unary()), grpc.WithChainStreamInterceptor(supplier.Stream()),
	)
	if err != nil {
		panic(err)
	}
	defer cc.Close()
	for range 2 {
		_, err := healthpb.NewHealthClient(cc).Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err), errors.Is(err, coord.ErrLimited))
	}
	// Output:
	// OK false
	// ResourceExhausted true
}

// At most two calls at a time, over all machines that share the store.
func ExampleConcurrent() {
	client, err := coord.New(memory.New())
	if err != nil {
		panic(err)
	}
	defer client.Close()
	limited := grpccoord.Concurrent{
		Semaphore: client.Semaphore(2),
		Key:       func(_ context.Context, method string) string { return method },
	}
	dial, stop := serve(grpc.UnaryInterceptor(limited.Unary()))
	defer stop()

	cc, err := grpc.NewClient("passthrough:///health", dial, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer cc.Close()
	_, err = healthpb.NewHealthClient(cc).Check(context.Background(), &healthpb.HealthCheckRequest{})
	fmt.Println(status.Code(err))
	// Output: OK
}
