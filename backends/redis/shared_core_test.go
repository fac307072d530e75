package redis

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord"
)

// TestSharedOfTheCore: goroutines of two clients share three permits, and never more hold some at once. A writer waits for
// a reader, and is granted when that leaves.
func TestSharedOfTheCore(t *testing.T) {
	srv, _ := open(t)
	ctx := t.Context()
	clients := make([]*coord.Client, 2)
	for i := range clients {
		c, err := coord.New(connect(t, srv.Addr))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients[i] = c
	}
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 10 {
				l, err := clients[i%2].Semaphore(3).Lock(ctx, "k")
				if err != nil {
					t.Errorf("Lock: %v", err)
					return
				}
				n := inside.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				inside.Add(-1)
				if err := l.Unlock(ctx); err != nil {
					t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if n := most.Load(); n < 1 || n > 3 {
		t.Errorf("%d held a permit at once", n)
	}

	read, err := clients[0].ReadWrite().Read().Lock(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	granted := make(chan error, 1)
	go func() {
		l, err := clients[1].ReadWrite().Write().Lock(ctx, "k", coord.TTL(time.Minute))
		if err == nil {
			err = l.Unlock(ctx)
		}
		granted <- err
	}()
	eventually(t, "that the writer waits", func() bool {
		l, err := clients[0].ReadWrite().Read().TryLock(ctx, "k")
		if err == nil {
			_ = l.Unlock(ctx)
		}
		return err != nil
	})
	if err := read.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-granted:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(hung):
		t.Errorf("the writer still waits after %v", hung)
	}
}
