package memory

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// one asks for one permit, for tests in which many ask at once.
func (c client) one(key string, l driver.Limit) int {
	one, err := c.TakeOne(context.Background(), key, l, driver.Ask{Min: 1, N: 1})
	if err != nil {
		c.t.Error(err)
	}
	return one.N
}

// While keys come and go, and are asked by many at once, each is granted its limit, and no more.
func TestManyKeysAreExact(t *testing.T) {
	s := NewStore()
	l := normal(t, "20/24h")
	const keys = 200
	var granted [keys]atomic.Int64
	var wg sync.WaitGroup
	for worker := range 8 {
		c := open(t, s)
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 5000 {
				i := random.IntN(keys)
				granted[i].Add(int64(c.one("k"+strconv.Itoa(i), l)))
			}
		})
		wg.Go(func() {
			for i := range 1000 {
				for range 3 {
					c.one("short-lived"+strconv.Itoa(i), l)
				}
				if i%2 == 1 {
					wantErr(t, "Reset", c.Reset(t.Context(), "short-lived"+strconv.Itoa(i-worker%2), l), nil)
				}
			}
		})
	}
	wg.Wait()
	c := open(t, s)
	for i := range granted {
		if got := int(granted[i].Load()); got+c.remaining("k"+strconv.Itoa(i), l) != 20 {
			t.Fatalf("k%d: granted %d, %d remaining, want 20 together", i, got, c.remaining("k"+strconv.Itoa(i), l))
		}
	}
}

// In no period is more granted than the limit, while many ask at once and sub-windows pass.
func TestBoundOverTime(t *testing.T) {
	for _, form := range []string{"100/10ms", "100/10ms fixed-window", "100/10ms burst=100"} {
		t.Run(form, func(t *testing.T) {
			s, l := NewStore(), normal(t, form)
			from := time.Now()
			var mu sync.Mutex
			var sent, got []time.Duration // of each permit
			var wg sync.WaitGroup
			for range 8 {
				c := open(t, s)
				wg.Go(func() {
					for asked := time.Since(from); asked < 300*time.Millisecond; asked = time.Since(from) {
						if c.one("k", l) == 1 {
							answered := time.Since(from)
							mu.Lock()
							sent, got = append(sent, asked), append(got, answered)
							mu.Unlock()
						}
					}
				})
			}
			wg.Wait()
			most := 100
			if form != "100/10ms" {
				most = 200
			}
			for _, begin := range sent {
				inside := 0
				for i := range sent {
					if sent[i] >= begin && got[i] < begin+10*time.Millisecond {
						inside++
					}
				}
				if inside > most {
					t.Fatalf("%d granted in the 10ms from %v: want at most %d", inside, begin, most)
				}
			}
		})
	}
}
