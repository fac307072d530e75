package permit

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

func TestDenialsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t, nil)
		for i := range maxDenials + 100 {
			key := fmt.Sprint(i)
			take(t, p, key, hour, 1)
			take(t, p, key, hour, 1)
		}
		if n := p.Stats().Denied; n > maxDenials {
			t.Errorf("%d entries: want at most %d", n, maxDenials)
		}
		time.Sleep(2 * maxDenial)
		take(t, p, "one more", hour, 1)
		take(t, p, "one more", hour, 1)
		if n := p.Stats().Denied; n != 1 || p.denied.any.Load() != 1 {
			t.Errorf("%d entries after all were over: want 1", n)
		}
	})
}

// A denial from before a Reset is not remembered after it, also if it waits until the Reset has ended.
func TestForgetRacesRemember(t *testing.T) {
	p, _ := newPool(t, nil)
	ds, d, ask := &p.denied, demand(t, "k", ten, 1), driver.Ask{Min: 1, N: 1}
	taken := driver.TakenOne{Granted: driver.Granted{RetryAfter: time.Second}}
	stale := 0
	for range 500 {
		sent, epoch := p.Clock.Now(), ds.epoch.Load()
		var wg sync.WaitGroup
		queued := func(call func()) { // most likely: nobody sees who waits for a Mutex
			wg.Go(call)
			for range 20 {
				runtime.Gosched()
			}
		}
		ds.mu.Lock()
		queued(func() { ds.forget("k") })
		queued(func() { ds.remember(d, ask, &taken, sent, epoch) })
		ds.mu.Unlock()
		wg.Wait()
		if _, ok := ds.lookup(d, ask); ok {
			stale++
		}
		ds.mu.Lock()
		ds.byKey.Clear()
		ds.any.Store(0)
		ds.mu.Unlock()
	}
	if stale > 0 {
		t.Errorf("%d denials from before a Reset were still there after it", stale)
	}
}

// A full memory is not swept for every denial.
func BenchmarkDenialSweep(b *testing.B) {
	for _, n := range []int{100, maxDenials} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p, _ := newPool(b, nil)
			far := p.Clock.Now().Add(time.Hour)
			t := driver.TakenOne{Granted: driver.Granted{RetryAfter: time.Second}}
			for i := range n {
				p.denied.remember(&driver.Demand{Key: fmt.Sprint(i), Limit: ten}, driver.Ask{Min: 1, N: 1}, &t, far, 0)
			}
			b.ResetTimer()
			for i := range b.N {
				p.denied.remember(&driver.Demand{Key: fmt.Sprint("x", i%10), Limit: ten}, driver.Ask{Min: 1, N: 1}, &t, far, 0)
			}
		})
	}
}
