package file

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// guardPath is where a guard's file was made.
func guardPath(t *testing.T) string {
	t.Helper()
	g := newGuard(filepath.Join(t.TempDir(), "guard"))
	if err := g.make(); err != nil {
		t.Fatal(err)
	}
	return g.path
}

func TestGuardsExclude(t *testing.T) {
	path := guardPath(t)
	// The race detector does not know of file locks, so these are atomic.
	var inside, count atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			g := newGuard(path)
			for range 50 {
				if err := g.lock(t.Context(), nil); err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d inside", n)
				}
				count.Add(1)
				inside.Add(-1)
				if err := g.unlock(); err != nil {
					t.Error(err)
				}
			}
			if err := g.close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := count.Load(); n != 400 {
		t.Errorf("counted %d, want 400", n)
	}
}

func TestGuardWaitEnds(t *testing.T) {
	path := guardPath(t)
	holder, waiter := newGuard(path), newGuard(path)
	if err := holder.lock(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := waiter.lock(ctx, nil)
	wantErr(t, "lock", err, context.DeadlineExceeded)
	wantErr(t, "lock", err, context.DeadlineExceeded)
	if took := time.Since(start); took > hung {
		t.Errorf("the wait ended after %v, want 30ms", took)
	}
	done := make(chan struct{})
	time.AfterFunc(10*time.Millisecond, func() { close(done) })
	wantErr(t, "lock", waiter.lock(t.Context(), done), driver.ErrClosed)
	for _, g := range []*guard{holder, waiter} {
		if err := g.close(); err != nil {
			t.Error(err)
		}
	}
}

// The lock of a deleted file is worth nothing.
func TestGuardOfDeletedFile(t *testing.T) {
	path := guardPath(t)
	a, b := newGuard(path), newGuard(path)
	for _, g := range []*guard{a, b} {
		if err := g.lock(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := g.unlock(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "lock of a file that is gone", second(newGuard(path).tryLock()), fs.ErrNotExist)
	if err := a.make(); err != nil {
		t.Fatal(err)
	}
	if ok, err := a.tryLock(); !ok || err != nil {
		t.Fatalf("first: %v, %v", ok, err)
	}
	if ok, err := b.tryLock(); ok || err != nil {
		t.Errorf("second, which had the deleted file open: %v, %v, want it to be refused", ok, err)
	}
	for _, g := range []*guard{a, b} {
		if err := g.close(); err != nil {
			t.Error(err)
		}
	}
}
