package page

import (
	"context"
	"net/url"
	"sync/atomic"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

// hanging says that the store of that name does not answer. One test uses it.
var hanging atomic.Bool

type hangingStore struct{ driver.Backend }

func init() {
	driver.Register("hanging", func(context.Context, *url.URL) (driver.Backend, error) {
		return hangingStore{memory.NewStore().Open()}, nil
	})
}

func (s hangingStore) Ping(ctx context.Context) error {
	if hanging.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Backend.Ping(ctx)
}

func (s hangingStore) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	if hanging.Load() {
		<-ctx.Done()
		return driver.Holder{}, ctx.Err()
	}
	return s.Backend.Inspect(ctx, key)
}
