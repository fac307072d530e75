package postgres

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord"
)

// keeps takes many holds, and has each of them renewed. None is lost.
func keeps(t *testing.T, holds int, take func(i int) (*coord.Lock, error)) {
	t.Helper()
	locks := make([]*coord.Lock, holds)
	until := make([]time.Time, holds)
	next := make(chan int)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range next {
				l, err := take(i)
				if err != nil {
					t.Errorf("hold %d: %v", i, err)
					continue
				}
				locks[i], until[i] = l, l.Deadline()
			}
		})
	}
	for i := range holds {
		next <- i
	}
	close(next)
	wg.Wait()
	if t.Failed() {
		return
	}
	for i, l := range locks {
		for start := time.Now(); !l.Deadline().After(until[i]) && l.Err() == nil; pause(10 * time.Millisecond) {
			if time.Since(start) > hung {
				t.Fatalf("hold %d is not renewed", i)
			}
		}
	}
	lost := 0
	for i, l := range locks {
		if err := l.Err(); err != nil {
			lost++
			t.Logf("hold %d: %v", i, err)
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d holds are lost", lost, holds)
	}
}

func TestNightlyManyHolds(t *testing.T) {
	c := newClient(t, patientURL(t, server(t).Addr))
	keeps(t, 20_000, func(i int) (*coord.Lock, error) { return c.Lock(t.Context(), fmt.Sprint(i), coord.TTL(30*time.Second)) })
}

func TestNightlyManyPermits(t *testing.T) {
	url := patientURL(t, server(t).Addr)
	var sems []*coord.Shared
	for range 8 {
		sems = append(sems, newClient(t, url).Semaphore(1024))
	}
	keeps(t, 1024, func(i int) (*coord.Lock, error) {
		return sems[i%len(sems)].Lock(t.Context(), "k", coord.TTL(30*time.Second))
	})
}
