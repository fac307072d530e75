//go:build july

package main

import (
	"context"
	"time"

	gostats "github.com/lyft/gostats"

	"github.com/envoyproxy/ratelimit/src/redis"
)

const january = false

func known(texts ...string) []string { return texts }

func newClient(addr string) redis.Client {
	scope := gostats.NewStore(gostats.NewNullSink(), false).Scope("x")
	return redis.NewClientImpl(context.Background(), scope, false, "", "tcp", "single", addr, 2, 0, 0, nil, false, nil, time.Second, "WAIT", "",
		time.Millisecond, time.Second, time.Second)
}
