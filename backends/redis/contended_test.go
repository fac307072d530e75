package redis_test

import (
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// Goroutines of one client hand the lock on: the store runs two scripts for each turn of 50ms, and a
// tenth of one for each lock where the machine lets the goroutines run.
func TestHandOverSparesTheStore(t *testing.T) {
	t.Parallel()
	const goroutines, each = 16, 125
	srv := testserver.Redis(t)
	client, err := coord.Open(t.Context(), "redis://"+srv.Addr+"/0")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	before, start := scripts(srv), time.Now()
	first, err := client.Lock(t.Context(), "k") // so that all are in the queue when it begins
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				l, err := client.Lock(t.Context(), "k")
				if err != nil {
					t.Error(err)
					return
				}
				if err := l.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	time.AfterFunc(20*time.Millisecond, func() {
		if err := first.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	turns := 2 * int64(time.Since(start)/(50*time.Millisecond))
	if n := scripts(srv) - before; n > goroutines*each/10+turns {
		t.Errorf("%d scripts for %d locks in %v", n, goroutines*each, time.Since(start))
	}
}
