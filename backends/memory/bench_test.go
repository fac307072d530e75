package memory

import (
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

func BenchmarkTryLockUnlock(b *testing.B) {
	c := New().(driver.Locker)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.TryLock(ctx, "orders/42", driver.Request{ID: "a", TTL: time.Minute}); err != nil {
			b.Fatal(err)
		}
		if err := c.Unlock(ctx, "orders/42", "a"); err != nil {
			b.Fatal(err)
		}
	}
}

// One operation is a hand-over to the next of two waiters.
func BenchmarkHandOver(b *testing.B) {
	s := NewStore()
	done := make(chan error, 2)
	ctx := b.Context()
	b.ReportAllocs()
	b.ResetTimer()
	for _, id := range []string{"a", "b"} {
		go func() {
			c := s.Open()
			for range b.N/2 + 1 {
				if _, err := c.(driver.Queuer).Lock(ctx, "orders/42", driver.Request{ID: id, TTL: time.Minute}); err != nil {
					done <- err
					return
				}
				if err := c.(driver.Locker).Unlock(ctx, "orders/42", id); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}
