package server

import (
	"context"
	"fmt"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/server/envoy"
)

// envoyEvery is how often the files of Envoy's limits are looked at.
const envoyEvery = 5 * time.Second

// Envoy's service by HTTP and by gRPC.
const (
	envoyRoute  = "POST /json"
	envoyMethod = ratelimitpb.RateLimitService_ShouldRateLimit_FullMethodName
)

// newEnvoy makes Envoy's service, if the configuration has files of it. Its callers are those of the Server.
func (s *Server) newEnvoy(o Options) (err error) {
	if len(s.cfg.Envoy.Files) == 0 {
		return nil
	}
	if s.envoy, err = envoy.New(s.client, envoy.Options{Meter: o.Meter, May: mayTake}); err != nil {
		return fmt.Errorf("serve.envoy: %w", err)
	}
	ratelimitpb.RegisterRateLimitServiceServer(s.grpc, s.envoy)
	s.mux.Handle(envoyRoute, s.envoy)
	return nil
}

// mayTake refuses a caller who may not take permits of the keys with that prefix.
func mayTake(ctx context.Context, prefix string) error {
	c, ok := ctx.Value(callerKey{}).(*caller)
	if !ok {
		return statusOf(errToken)
	}
	return statusOf(c.may(config.Take, prefix))
}

// watchEnvoy takes changed files until ctx ends.
func (s *Server) watchEnvoy(ctx context.Context) {
	s.envoy.Watch(ctx, envoyEvery, func(err error) {
		if err != nil {
			s.log.Error("the files of serve.envoy were not taken: what they said before stays in force", "error", err)
			return
		}
		s.log.Info("the files of serve.envoy were taken")
	})
}
