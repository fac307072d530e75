package memory

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// gatesLeft counts the gates and the chains, and looks whether each gate is in the right one.
func (s *Store) gatesLeft(t *testing.T) (n, heads int) {
	t.Helper()
	for i := range s.gates {
		gs := &s.gates[i]
		table := gs.heads.Load()
		if table == nil {
			continue
		}
		heads += len(*table)
		found := 0
		for at := range *table {
			for g := (*table)[at].Load(); g != nil; g = g.next.Load() {
				found++
				if gs.find(g.hash, g.key, &driver.Limit{Rate: 1}) != nil || headOf(*table, g.hash) != &(*table)[at] {
					t.Errorf("the gate of %q is in a wrong chain", g.key)
				}
			}
		}
		if found != gs.n {
			t.Errorf("%d gates in the chains, %d counted", found, gs.n)
		}
		n += found
	}
	return n, heads
}

// one asks for one permit as the core does, for tests in which many ask at once.
func (c client) one(key string, l driver.Limit) int {
	if q, ok := c.TakeQuick(key, l, 1, 1); ok {
		return q.N
	}
	one, err := c.TakeOne(context.Background(), key, l, driver.Ask{Min: 1, N: 1})
	if err != nil {
		c.t.Error(err)
	}
	return one.N
}

// Whoever asks at gates is answered as one who does not, whatever else is done.
func TestGatesChangeNothing(t *testing.T) {
	limits := []string{"10/1s", "20/1s", "10/1m", "bucket", "10/1s fixed-window", "5/1m fixed-window"}
	// One for each key: how a changed one counts depends on the time of the last grant, which
	// a gate does not know exactly.
	buckets := []string{"30/1s burst=5", "10/1s burst=20", "1000/1h burst=100"}
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			gated, plain := open(t, NewStore()), open(t, NewStore())
			ctx := context.Background()
			quick := 0
			for range 3000 {
				i := random.IntN(len(buckets))
				key, form := "k"+strconv.Itoa(i), limits[random.IntN(len(limits))/(1+random.IntN(3))]
				if form == "bucket" {
					form = buckets[i]
				}
				l := normal(t, form)
				switch random.IntN(40) {
				case 0:
					wantErr(t, "Reset", gated.Reset(ctx, key, l), nil)
					wantErr(t, "Reset", plain.Reset(ctx, key, l), nil)
				case 1:
					demands := []driver.Demand{{Key: key, Limit: l, N: 1 + random.IntN(3)}, {Key: "other", Limit: l, N: 1}}
					a, err := gated.TakeAll(ctx, demands)
					wantErr(t, "TakeAll", err, nil)
					b, err := plain.TakeAll(ctx, demands)
					wantErr(t, "TakeAll", err, nil)
					for i := range a {
						if a[i].Asks[0] != b[i].Asks[0] || a[i].Remaining != b[i].Remaining || a[i].ResetAfter != b[i].ResetAfter {
							t.Fatalf("TakeAll: %+v with gates, %+v without", a[i], b[i])
						}
					}
				case 2, 3, 4:
					time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
				case 5:
					time.Sleep(time.Duration(random.Int64N(int64(3 * time.Minute))))
				default:
					time.Sleep(time.Duration(random.Int64N(int64(5 * time.Millisecond))))
					a := driver.Ask{Min: random.IntN(3), N: 1 + random.IntN(3)}
					a.Min = min(a.Min, a.N)
					want, err := plain.TakeOne(ctx, key, l, a)
					wantErr(t, "TakeOne", err, nil)
					got, ok := gated.TakeQuick(key, l, a.Min, a.N)
					if !ok {
						one, err := gated.TakeOne(ctx, key, l, a)
						wantErr(t, "TakeOne", err, nil)
						got = driver.Quick{N: one.N, Remaining: one.Remaining, RetryAfter: one.RetryAfter, ResetAfter: one.ResetAfter}
					} else {
						quick++
					}
					if got != (driver.Quick{N: want.N, Remaining: want.Remaining, RetryAfter: want.RetryAfter, ResetAfter: want.ResetAfter}) {
						t.Fatalf("%+v of %v: %+v with gates, %+v without", a, l, got, want)
					}
				}
			}
			if quick < 20 {
				t.Errorf("%d answers of gates", quick)
			}
			gated.store.gatesLeft(t)
		})
	}
}

// While keys come and go, and are asked by many at once, each is granted its limit, and no more.
func TestGatesOfManyKeysAreExact(t *testing.T) {
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
		wg.Go(func() { // chains shrink, too
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
	s.gatesLeft(t)
}

// In no period is more granted than the limit, while many ask at once and sub-windows pass.
func TestGatesKeepTheBoundOverTime(t *testing.T) {
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
			if len(sent) < 1000 {
				t.Logf("only %d granted: the machine is slow", len(sent))
			}
		})
	}
}

// What a client may not ask is not answered at a gate that others have opened.
func TestGateRefusals(t *testing.T) {
	synctest.Test(t, testGateRefusals)
}

func testGateRefusals(t *testing.T) {
	s := NewStore()
	c, other := open(t, s), open(t, s)
	l := normal(t, "10/1m")
	for range 3 {
		c.take("k", l, n(1))
	}
	for name, tc := range map[string]struct {
		key      string
		l        driver.Limit
		least, n int
		want     bool
	}{
		"as it was":      {"k", l, 1, 1, true},
		"peek":           {"k", l, 0, 0, false},
		"at least none":  {"k", l, 0, 1, false},
		"negative":       {"k", l, -1, -1, false},
		"least above n":  {"k", l, 2, 1, false},
		"too many":       {"k", l, 1, 11, false},
		"empty key":      {"", l, 1, 1, false},
		"another key":    {"kk", l, 1, 1, false},
		"another limit":  {"k", normal(t, "11/1m"), 1, 1, false},
		"no limit":       {"k", driver.Limit{}, 1, 1, false},
		"not normal":     {"k", driver.Limit{Rate: 10, Per: time.Minute}, 1, 1, false},
		"another period": {"k", normal(t, "10/1h"), 1, 1, false},
	} {
		if _, ok := other.TakeQuick(tc.key, tc.l, tc.least, tc.n); ok != tc.want {
			t.Errorf("%s: answered %v, want %v", name, ok, tc.want)
		}
	}
	wantErr(t, "Close", other.Close(), nil)
	if _, ok := other.TakeQuick("k", l, 1, 1); ok {
		t.Error("answered after Close")
	}
	if _, ok := c.TakeQuick("k", l, 1, 1); !ok {
		t.Error("the other client is closed, and this one is not answered")
	}
}
