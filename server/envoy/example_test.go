package envoy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	_ "github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/server/envoy"
)

// A program serves Envoy by gRPC.
func ExampleService() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "ratelimit")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	const file = `
domain: edge
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 1}}
`
	if err := os.WriteFile(filepath.Join(dir, "edge.yaml"), []byte(file), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	cfg, err := config.Parse("coord.yaml", fmt.Appendf(nil, "url: memory://\nserve: {envoy: {files: [%q]}}\n", dir))
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := cfg.Open(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }()
	s, err := envoy.New(client, envoy.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	g := grpc.NewServer()
	pb.RegisterRateLimitServiceServer(g, s) // and then g.Serve, with s.Watch beside it

	ann := &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: "ann"}}}
	for range 2 {
		r, err := s.ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: "edge", Descriptors: []*common.RateLimitDescriptor{ann}})
		fmt.Println(r.GetOverallCode(), err)
	}
	// Output:
	// OK <nil>
	// OVER_LIMIT <nil>
}

// Only the gateway may take permits of the domain edge.
func ExampleOptions() {
	type gateway struct{}
	options := envoy.Options{May: func(ctx context.Context, prefix string) error {
		if prefix == envoy.KeyPrefix+"edge/" && ctx.Value(gateway{}) == nil {
			return errors.New("the gateway alone")
		}
		return nil
	}}
	fmt.Println(options.May(context.Background(), "rls/edge/"))
	// Output: the gateway alone
}

// Files are read without a store, to check them.
func ExampleRules() {
	file := envoy.File{Name: "edge.yaml", Text: []byte(`
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 20}
`)}
	rules, err := envoy.Parse(false, file)
	fmt.Print(rules)
	fmt.Println(err)
	// Output:
	// edge.user: 20 a minute
	// <nil>
}

// A mistake is told with its line.
func ExampleFile() {
	file := envoy.File{Name: "edge.yaml", Text: []byte("domain: edge\nlimit: 5\ndescriptors: []\n")}
	_, err := envoy.Parse(false, file)
	var mistake *config.Error
	fmt.Println(errors.As(err, &mistake), mistake.Line)
	// Output: true 2
}
