package permit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// add puts a block of n permits beside what is there.
func add(t *testing.T, p *Pool, l driver.Limit, n int) {
	t.Helper()
	a := &p.advance
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.of(limitKey{"k", demand(t, "k", l, 1).Limit})
	f.blocks = append(f.blocks, &block{n: n, left: n, ends: p.Clock.Now().Add(time.Minute)})
}

// exhausted is a limit under "k" of which the store has nothing left, and a pool that may prefetch it.
func exhausted(t *testing.T) (*Pool, *fakeStore, driver.Limit) {
	t.Helper()
	p, f := newPool(t, &Rule{})
	l := driver.Limit{Rate: 100, Per: time.Hour, Algorithm: driver.FixedWindow}
	take(t, p, "k", l, 100)
	return p, f, l
}

// What is there is in two blocks.
func TestTakeOfTwoBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, l := exhausted(t)
		add(t, p, l, 3)
		add(t, p, l, 5)
		granted := 0
		for range 2 {
			r := takeAtLeast(t, p, "k", l, 1, 8)
			if !r.Allowed {
				t.Errorf("%+v: want what is prefetched", r)
			}
			granted += r.Granted
		}
		if granted != 8 {
			t.Errorf("%d granted of 8", granted)
		}
	})
}

// A wait that the store denies does not sleep beside permits that were taken meanwhile.
func TestDeniedWaitLooksAtWhatIsPrefetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f, l := exhausted(t)
		f.before = func() { add(t, p, l, 3) }
		began := time.Now()
		if _, _, err := p.Await(t.Context(), demand(t, "k", l, 1)); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("it slept for %v", d)
		}
	})
}

// Keys that nobody asks for any more leave nothing behind, and there is a most of them.
func TestTableIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t, &Rule{})
		for i := range maxPrefetched + 100 {
			take(t, p, fmt.Sprint(i), ten, 1)
		}
		if n := p.Stats().Prefetched; n != maxPrefetched {
			t.Errorf("%d entries: want %d", n, maxPrefetched)
		}
		time.Sleep(maxIdle + time.Second)
		if n := p.Stats().Prefetched; n != 0 {
			t.Errorf("%d entries of keys that nobody asks for", n)
		}
		take(t, p, "again", ten, 1)
		time.Sleep(maxIdle + time.Second)
		if n := p.Stats().Prefetched; n != 0 {
			t.Errorf("%d entries after the sweep had stopped once", n)
		}
	})
}

// BenchmarkSweep is what a client that prefetches for one limit does every 25 ms.
func BenchmarkSweep(b *testing.B) {
	p, _ := newPool(b, &Rule{})
	take(b, p, "k", driver.Limit{Rate: 1000, Per: time.Hour}, 1)
	for b.Loop() {
		p.advance.sweep()
	}
}
