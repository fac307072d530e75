//go:build !july

package main

import (
	"slices"
	"strings"
	"time"

	gostats "github.com/lyft/gostats"

	"github.com/envoyproxy/ratelimit/src/redis"
)

// january says that this is the version of January, 3fb7025. What July's does otherwise, and coord as that does, is left out:
//
//   - 6bcd4d2: a * is a wildcard wherever it is in a value. In January one at the end alone is; no other is made.
//   - 3728d99: rules have metadata, which is in the answer. In January the key "metadata" is unknown; it is not made. And the
//     answer has two fields of quota mode, which are taken out of it.
//   - 05c08d0: a limit in quota mode that is exceeded has the code OVER_LIMIT and its time, and if all are exceeded, so is the
//     whole. In January it says OK without a time: such an answer is left out, but the request counts.
const january = true

// known drops texts of configurations that January's version does not know.
func known(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool {
		return strings.HasPrefix(s, "metadata:") || strings.Contains(strings.TrimSuffix(s, "*"), "*")
	})
}

func newClient(addr string) redis.Client {
	scope := gostats.NewStore(gostats.NewNullSink(), false).Scope("x")
	return redis.NewClientImpl(scope, false, "", "tcp", "single", addr, 2, 0, 0, nil, false, nil, time.Second, "WAIT", "")
}
