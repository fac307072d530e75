package coordpb_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	_ "github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/server"
	"github.com/coordgo/coord/server/coordpb"
)

// A process leads while it holds a key by a stream.
func ExampleLocksClient() {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	cc, err := grpc.NewClient(serve(ctx), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cc.Close()
	fmt.Println(lead(ctx, coordpb.NewLocksClient(cc), "scheduler", func(context.Context) { fmt.Println("leading") }))
	// Output:
	// leading
	// EOF
}

// lead holds the key, and works under a context that ends when the time of the last answer is over.
func lead(ctx context.Context, locks coordpb.LocksClient, key string, work func(ctx context.Context)) error {
	stream, err := locks.Hold(ctx)
	if err != nil {
		return err
	}
	leading, stop := context.WithCancel(ctx)
	defer stop()
	var over *time.Timer   // stops the work when the time of the last answer is over
	var done chan struct{} // closed when the work has ended; nil: it has not begun
	ask := &coordpb.HoldRequest{Acquire: &coordpb.AcquireRequest{Key: key, WaitMs: 60_000}}
	for {
		sent := time.Now()
		_ = stream.Send(ask) // Recv tells why it failed
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		left := time.Until(sent.Add(time.Duration(answer.GetRemainingMs()) * time.Millisecond))
		ask = new(coordpb.HoldRequest)
		switch {
		case over != nil:
			over.Reset(left)
		case left <= 0: // it has waited for long: the next answer counts
			continue
		default:
			over, done = time.AfterFunc(left, stop), make(chan struct{})
			go func() { defer close(done); work(leading) }()
		}
		select {
		case <-done:
			_ = stream.CloseSend() // the key is free when the stream has ended
			_, err := stream.Recv()
			return err
		case <-leading.Done():
			return leading.Err()
		case <-time.After(time.Duration(answer.GetTtlMs()) * time.Millisecond / 3):
		}
	}
}

// serve runs a server until ctx ends, and gives its address.
func serve(ctx context.Context) string {
	cfg, err := config.Parse("coord.yaml", []byte("url: memory://\nserve: {listen: '127.0.0.1:0', grpc_listen: '127.0.0.1:0'}"))
	if err != nil {
		panic(err)
	}
	client, err := cfg.Open(ctx)
	if err != nil {
		panic(err)
	}
	s, err := server.New(ctx, client, server.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	var ls [2]net.Listener
	for i, listen := range []func(context.Context) (net.Listener, error){s.Listen, s.ListenGRPC} {
		if ls[i], err = listen(ctx); err != nil {
			panic(err)
		}
	}
	go func() {
		_ = s.Serve(ctx, ls[0], ls[1])
		_ = client.Close()
	}()
	return ls[1].Addr().String()
}
