package migration

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/coordgo/coord"
)

// rateBefore says for how long to wait; 0 if the call may be made.
func rateBefore(ctx context.Context, limiter *redis_rate.Limiter) (time.Duration, error) {
	res, err := limiter.Allow(ctx, "supplier", redis_rate.PerMinute(2000))
	if err != nil {
		return 0, err
	}
	if res.Allowed == 0 {
		return res.RetryAfter, nil
	}
	return 0, nil
}

// rateAfter is as strict as its name: never more than 2000 in any minute.
func rateAfter(ctx context.Context, client *coord.Client) (time.Duration, error) {
	res, err := client.Allow(ctx, "supplier", coord.PerMinute(2000))
	return res.RetryAfter, err
}

// sameBucket is what redis_rate.PerMinute(2000) counted: 2000 at once, and 2000 a minute beside.
var sameBucket = coord.Limit{Rate: 2000, Per: time.Minute, Burst: 2000}

// rateBoth is counted by both, for as long as some processes have not moved.
func rateBoth(ctx context.Context, limiter *redis_rate.Limiter, client *coord.Client) (time.Duration, error) {
	if wait, err := rateBefore(ctx, limiter); wait > 0 || err != nil {
		return wait, err
	}
	return rateAfter(ctx, client) // a denial here has cost a permit there: never too many, perhaps too few
}
