package redis

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// meeting holds PINGs up until as many as were expected have come, and then every dial until
// the test ends, as a network does that loses packets.
type meeting struct {
	sync.WaitGroup
	over chan struct{}
}

func (m *meeting) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) {
		<-m.over
		return nil, context.Canceled
	}
}

func (m *meeting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (m *meeting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "ping" {
			m.Done()
			m.Wait()
		}
		return next(ctx, cmd)
	}
}

// TestCallsThatShareOneConnection: several calls find one idle connection to a server that has
// stopped. All but one need a new connection, and each call still ends with its ctx.
func TestCallsThatShareOneConnection(t *testing.T) {
	t.Parallel()
	srv, _ := open(t)
	b := connect(t, srv.Addr)
	if n := b.client.PoolStats().IdleConns; n != 1 {
		t.Fatalf("%d idle connections, want 1", n)
	}
	const calls = maxActive // more would wait for these
	all := meeting{over: make(chan struct{})}
	defer close(all.over)
	all.Add(calls)
	b.client.AddHook(&all)
	srv.Pause()
	defer srv.Resume()
	errs := make(chan error, calls)
	for range calls {
		go func() {
			bound := driver.NewBound(t.Context(), 100*time.Millisecond)
			defer bound.Stop()
			errs <- b.Ping(bound)
		}()
	}
	for range calls {
		select {
		case err := <-errs:
			if err == nil {
				t.Error("answered by a server that has stopped")
			}
		case <-time.After(hung):
			t.Fatalf("a call of 100ms still runs after %v", hung)
		}
	}
}
