package memory

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

func BenchmarkTryLockUnlock(b *testing.B) {
	c := New()
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
				if _, err := c.Lock(ctx, "orders/42", driver.Request{ID: id, TTL: time.Minute}, func() {}); err != nil {
					done <- err
					return
				}
				if err := c.Unlock(ctx, "orders/42", id); err != nil {
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

func benchLimits(b *testing.B, run func(b *testing.B, l driver.Limit)) {
	for _, text := range []string{"1000000000/1m", "1000000000/1m burst=1000000", "1000000000/1m fixed-window"} {
		l, err := driver.ParseLimit(text)
		if err == nil {
			l, err = l.Normal()
		}
		if err != nil {
			b.Fatal(err)
		}
		b.Run(l.Algorithm.String(), func(b *testing.B) { run(b, l) })
	}
}

func BenchmarkTakeOne(b *testing.B) {
	benchLimits(b, func(b *testing.B, l driver.Limit) {
		c := New()
		ctx := b.Context()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.TakeOne(ctx, "supplier", l, driver.Ask{Min: 1, N: 1}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkTakeOneOfManyKeys(b *testing.B) {
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = "client/" + strconv.Itoa(i)
	}
	benchLimits(b, func(b *testing.B, l driver.Limit) {
		c := New()
		ctx := b.Context()
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := rand.IntN(len(keys)); pb.Next(); i++ {
				if _, err := c.TakeOne(ctx, keys[i%len(keys)], l, driver.Ask{Min: 1, N: 1}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}
