//go:build !race

package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// The race detector allocates, and so this runs without it: make test does both.
func TestAllocations(t *testing.T) {
	b := shared(t)
	ctx := t.Context()
	r := request("a", time.Minute)
	l, permit := b.Shared(), shares("a", permits(1, 16))
	bucket := limitOf(t, "1000000/1s burst=1000000")
	for name, tt := range map[string]struct {
		most float64
		op   func() error
	}{
		"TryLock+Unlock": {18, func() error {
			if _, err := b.TryLock(ctx, "k", r); err != nil {
				return err
			}
			return b.Unlock(ctx, "k", r.ID)
		}},
		"shared TryLock+Unlock": {20, func() error {
			if _, err := l.TryLock(ctx, "k", permit); err != nil {
				return err
			}
			return l.Unlock(ctx, "k", permit.ID)
		}},
		"TakeOne": {11, func() error { _, err := b.TakeOne(ctx, "k", bucket, driver.Ask{Min: 1, N: 1}); return err }},
	} {
		var err error
		n := testing.AllocsPerRun(300, func() { err = errors.Join(err, tt.op()) })
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v allocations with a ctx that can be cancelled", name, n)
		if n > tt.most {
			t.Errorf("%s: %v allocations, want at most %v", name, n, tt.most)
		}
	}
}
