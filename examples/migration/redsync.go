package migration

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	coordredis "github.com/coordgo/coord/backends/redis"
)

// redsyncBefore has 30 seconds for the work, and does not notice if it takes longer.
func redsyncBefore(ctx context.Context, rdb *redis.Client, work func(context.Context) error) error {
	rs := redsync.New(goredis.NewPool(rdb))
	mutex := rs.NewMutex("invoices", redsync.WithExpiry(30*time.Second))
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer func() { _, _ = mutex.UnlockContext(context.WithoutCancel(ctx)) }()
	return work(ctx)
}

// redsyncAfter works as long as needed, and ctx ends if the lock is lost.
func redsyncAfter(ctx context.Context, client *coord.Client, work func(context.Context) error) error {
	return coord.Do(ctx, client, "invoices", work)
}

// redsyncBoth excludes the processes that have moved and those that have not.
func redsyncBoth(ctx context.Context, rdb *redis.Client, client *coord.Client, work func(context.Context) error) error {
	return redsyncBefore(ctx, rdb, func(ctx context.Context) error {
		return redsyncAfter(ctx, client, work)
	})
}

// overRedis uses the client that the program has.
func overRedis(rdb *redis.Client) (*coord.Client, error) {
	store, err := coordredis.New(rdb) // wants redis.Options.ContextTimeoutEnabled
	if err != nil {
		return nil, err
	}
	return coord.New(store, coord.WithPrefix("shop/"))
}
