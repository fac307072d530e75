package migration

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/coordgo/coord"
)

// rateBefore returns how long to wait; 0 means that the call is allowed.
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

// rateAfter allows at most 2000 in any minute.
func rateAfter(ctx context.Context, client *coord.Client) (time.Duration, error) {
	res, err := client.Allow(ctx, "supplier", coord.PerMinute(2000))
	return res.RetryAfter, err
}

// sameBucket counts like redis_rate.PerMinute(2000): 2000 at once, and 2000 more per minute.
var sameBucket = coord.Limit{Rate: 2000, Per: time.Minute, Burst: 2000}

// rateBoth asks both limits, as long as some processes have not moved.
func rateBoth(ctx context.Context, limiter *redis_rate.Limiter, client *coord.Client) (time.Duration, error) {
	if wait, err := rateBefore(ctx, limiter); wait > 0 || err != nil {
		return wait, err
	}
	return rateAfter(ctx, client) // a denial here has used a permit there: never too many, maybe too few
}
