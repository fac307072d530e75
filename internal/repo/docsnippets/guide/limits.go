package guide

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coordgo/coord"
)

// serve answers 429 to a user who asks too much.
func serve(client *coord.Client, user string, w http.ResponseWriter, r *http.Request) {
	res, err := client.Allow(r.Context(), coord.Key("user", user), coord.PerSecond(5))
	switch {
	case err != nil: // the store is away, and the policy is FailClosed
		http.Error(w, "try again later", http.StatusServiceUnavailable)
	case !res.Allowed: // a denial is no error
		seconds := int((res.RetryAfter + time.Second - 1) / time.Second)
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	default:
		fmt.Fprintln(w, "hello")
	}
}

// raise gives a tenant ten times as much for two days, in all clients that are made WithOverrides.
func raise(ctx context.Context, client *coord.Client, tenant string) error {
	return client.Override(ctx, coord.Key("tenant", tenant), 10, 48*time.Hour)
}

// admit takes a permit of three limits, or none of any.
func admit(ctx context.Context, client *coord.Client, user, tenant string) (bool, error) {
	results, err := client.AllowAll(ctx,
		coord.Demand{Key: coord.Key("user", user), Limit: coord.PerSecond(5), N: 1},
		coord.Demand{Key: coord.Key("tenant", tenant), Limit: coord.PerSecond(500), N: 1},
		coord.Demand{Key: "everyone", Limit: coord.PerSecond(10_000), N: 1},
	)
	return err == nil && results[0].Allowed, err // Allowed is the same in each
}
