package file

import (
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

func BenchmarkTryLockUnlock(b *testing.B) {
	c, err := New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	l := c
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.TryLock(ctx, "orders/42", driver.Request{ID: "a", TTL: time.Minute}); err != nil {
			b.Fatal(err)
		}
		if err := l.Unlock(ctx, "orders/42", "a"); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkTakeOne(b *testing.B) {
	for _, text := range []string{"1000000/1m", "1000000/1m burst=1000000", "1000000/1m fixed-window"} {
		b.Run(text, func(b *testing.B) {
			c, err := New(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			l, err := driver.ParseLimit(text)
			if err == nil {
				l, err = l.Normal()
			}
			if err != nil {
				b.Fatal(err)
			}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.TakeOne(ctx, "supplier", l, driver.Ask{Min: 1, N: 1}); err != nil {
					b.Fatal(err)
				}
			}
			if err := c.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	b.ReportAllocs()
	for b.Loop() {
		c, err := New(dir)
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
