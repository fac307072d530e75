package redis

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// Close ends a long call under way, over a client that stays open too, though
// the server is silent and the application allows it a minute.
func TestCloseEndsALongCall(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: srv.Addr, ContextTimeoutEnabled: true, ReadTimeout: 2 * hung})
	defer client.Close()
	b, err := New(client)
	if err != nil {
		t.Fatal(err)
	}
	l := b
	r := request("a", 30*time.Second)
	if _, err := l.TryLock(t.Context(), "k", r); err != nil {
		t.Fatal(err)
	}
	if err := client.Do(t.Context(), "client", "pause", "120000", "all").Err(); err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		ctx := driver.NewBound(context.Background(), 2*hung)
		defer ctx.Stop()
		close(begun)
		_, err := l.Renew(ctx, "k", r)
		done <- err
	}()
	<-begun
	start := time.Now()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the renewal under way has no error")
	}
	if d := time.Since(start); d > hung {
		t.Errorf("the renewal under way ended %v after Close", d)
	}
}
