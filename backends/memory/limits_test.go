package memory

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

func normal(t testing.TB, text string) driver.Limit {
	t.Helper()
	l, err := driver.ParseLimit(text)
	if err == nil {
		l, err = l.Normal()
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// take is TakeOne, which must not fail.
func (c client) take(key string, l driver.Limit, a driver.Ask) driver.TakenOne {
	c.t.Helper()
	one, err := c.TakeOne(c.t.Context(), key, l, a)
	if err != nil {
		c.t.Fatalf("TakeOne(%q, %v, %+v): %v", key, l, a, err)
	}
	return one
}

func (c client) remaining(key string, l driver.Limit) int {
	c.t.Helper()
	return c.take(key, l, driver.Ask{}).Remaining
}

func n(n int) driver.Ask { return driver.Ask{Min: n, N: n} }

var forms = []string{"10/1m", "10/1m fixed-window", "10/1m burst=10"}

func TestTake(t *testing.T) {
	for _, form := range forms {
		t.Run(form, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := normal(t, form)
				s := NewStore()
				c, other := open(t, s), open(t, s)
				if got := c.remaining("k", l); got != 10 || s.limits.size() != 0 {
					t.Errorf("peek: %d remaining, %d states, want 10 and none", got, s.limits.size())
				}
				taken, err := c.Take(t.Context(), "k", l, []driver.Ask{n(3), n(8), {Min: 1, N: 10}})
				if err != nil {
					t.Fatal(err)
				}
				var got []int
				for _, g := range taken.Asks {
					got = append(got, g.N)
				}
				if !slices.Equal(got, []int{3, 0, 7}) || taken.Remaining != 0 || taken.Asks[1].RetryAfter <= 0 {
					t.Errorf("Take: %+v, want 3, 0 and 7 granted, none remaining", taken)
				}
				none, err := other.Take(t.Context(), "k", l, nil)
				if err != nil || none.Remaining != 0 || none.ResetAfter != taken.ResetAfter || len(none.Asks) != 0 {
					t.Errorf("Take of nothing: %+v, %v", none, err)
				}
				denied := other.take("k", l, n(1))
				if denied.N != 0 || denied.RetryAfter <= 0 {
					t.Errorf("denied: %+v, want a delay", denied)
				}
				time.Sleep(denied.RetryAfter - time.Millisecond)
				if early := other.take("k", l, n(1)); early.N != 0 {
					t.Errorf("before RetryAfter: %+v, want a denial", early)
				}
				time.Sleep(time.Millisecond)
				if due := other.take("k", l, n(1)); due.N != 1 {
					t.Errorf("after RetryAfter: %+v, want a grant", due)
				}
				time.Sleep(c.take("k", l, driver.Ask{}).ResetAfter)
				if got := c.remaining("k", l); got != 10 {
					t.Errorf("after ResetAfter: %d remaining, want 10", got)
				}
			})
		})
	}
}

func TestStatesAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		c := open(t, s)
		all := append([]string{"10/1h", "10/1h fixed-window"}, forms...)
		for _, reset := range all {
			for _, form := range all {
				if got := c.take("k", normal(t, form), driver.Ask{Min: 1, N: 10}); got.N != 10 {
					t.Fatalf("%s: granted %d, want 10", form, got.N)
				}
			}
			// In turn each is at another place in the list.
			for range 2 {
				wantErr(t, "Reset", c.Reset(t.Context(), "k", normal(t, reset)), nil)
			}
			for _, form := range all {
				want := 0
				if form == reset {
					want = 10
				}
				if got := c.remaining("k", normal(t, form)); got != want {
					t.Errorf("after Reset of %s: %s has %d remaining, want %d", reset, form, got, want)
				}
			}
			for _, form := range all {
				wantErr(t, "Reset", c.Reset(t.Context(), "k", normal(t, form)), nil)
			}
			if size := s.limits.size(); size != 0 {
				t.Fatalf("%d keys after Reset of all, want none", size)
			}
		}
	})
}

func TestReserveAndRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, NewStore())
		l := normal(t, "1/1s burst=5")
		wantErr(t, "Refund of nothing", c.Refund(t.Context(), "k", l, "r", 1), nil)
		c.take("k", l, n(5))
		ahead := c.take("k", l, driver.Ask{ID: "r", Min: 2, N: 2, MaxDelay: 5 * sec})
		if ahead.N != 2 || ahead.Delay != 2*sec {
			t.Fatalf("reservation: %+v, want 2 in 2s", ahead)
		}
		for range 2 {
			wantErr(t, "Refund", c.Refund(t.Context(), "k", l, "r", 2), nil)
		}
		if got := c.take("k", l, driver.Ask{}).ResetAfter; got != 5*sec {
			t.Errorf("after the refund: full in %v, want 5s", got)
		}
	})
}

func TestLimitRefusals(t *testing.T) {
	c := open(t, NewStore())
	ctx, l := t.Context(), normal(t, "10/1m")
	for name, tc := range map[string]struct {
		ask  driver.Ask
		want error
	}{
		"too many":      {n(11), driver.ErrInvalid},
		"negative":      {n(-1), driver.ErrInvalid},
		"negative min":  {driver.Ask{Min: -1, N: 1}, driver.ErrInvalid},
		"min above n":   {driver.Ask{Min: 2, N: 1}, driver.ErrInvalid},
		"window, ahead": {driver.Ask{Min: 1, N: 1, MaxDelay: sec}, driver.ErrUnsupported},
	} {
		wantErr(t, "TakeOne: "+name, second(c.TakeOne(ctx, "k", l, tc.ask)), tc.want)
		wantErr(t, "Take: "+name, second(c.Take(ctx, "k", l, []driver.Ask{n(1), tc.ask})), tc.want)
	}
	wantErr(t, "TakeOne: empty key", second(c.TakeOne(ctx, "", l, n(1))), driver.ErrInvalid)
	wantErr(t, "Take: empty key", second(c.Take(ctx, "", l, nil)), driver.ErrInvalid)
	wantErr(t, "Reset: empty key", c.Reset(ctx, "", l), driver.ErrInvalid)
	wantErr(t, "Refund: empty key", c.Refund(ctx, "", l, "a", 1), driver.ErrInvalid)
	for name, demands := range map[string][]driver.Demand{
		"empty key":        {{Key: "", Limit: l, N: 1}},
		"too many":         {{Key: "a", Limit: l, N: 11}},
		"negative":         {{Key: "a", Limit: l, N: 5}, {Key: "a", Limit: l, N: -1}},
		"too many, summed": {{Key: "a", Limit: l, N: 6}, {Key: "a", Limit: l, N: 5}},
	} {
		wantErr(t, "TakeAll: "+name, second(c.TakeAll(ctx, demands)), driver.ErrInvalid)
	}
	if size := c.store.limits.size(); size != 0 {
		t.Errorf("refused calls left %d keys", size)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	wantErr(t, "TakeOne: ended context", second(c.TakeOne(ended, "k", l, n(1))), driver.ErrNotSent)
	wantErr(t, "TakeAll: ended context", second(c.TakeAll(ended, nil)), context.Canceled)
	wantErr(t, "Close", c.Close(), nil)
	wantErr(t, "TakeOne after Close", second(c.TakeOne(ctx, "k", l, n(1))), driver.ErrClosed)
	wantErr(t, "Take after Close", second(c.Take(ctx, "k", l, nil)), driver.ErrClosed)
	wantErr(t, "TakeAll after Close", second(c.TakeAll(ctx, nil)), driver.ErrClosed)
}

func TestTakeAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, NewStore())
		window, bucket := normal(t, "10/1m"), normal(t, "1/1s burst=5")
		all := func(demands ...driver.Demand) (ns []int, retry time.Duration) {
			t.Helper()
			taken, err := c.TakeAll(t.Context(), demands)
			if err != nil || len(taken) != len(demands) {
				t.Fatalf("TakeAll: %+v, %v", taken, err)
			}
			for _, one := range taken {
				ns = append(ns, one.Asks[0].N)
				retry = max(retry, one.Asks[0].RetryAfter)
			}
			return ns, retry
		}
		want := func(what string, wantWindow, wantBucket int) {
			t.Helper()
			if w, b := c.remaining("a", window), c.remaining("b", bucket); w != wantWindow || b != wantBucket {
				t.Errorf("%s: %d and %d remaining, want %d and %d", what, w, b, wantWindow, wantBucket)
			}
		}
		if ns, _ := all(); len(ns) != 0 {
			t.Errorf("no demands: %v", ns)
		}
		if ns, _ := all(driver.Demand{Key: "a", Limit: window, N: 4}, driver.Demand{Key: "b", Limit: bucket, N: 5}); !slices.Equal(ns, []int{4, 5}) {
			t.Errorf("granted %v, want 4 and 5", ns)
		}
		want("after a grant", 6, 0)
		ns, retry := all(driver.Demand{Key: "a", Limit: window, N: 4}, driver.Demand{Key: "b", Limit: bucket, N: 2})
		if !slices.Equal(ns, []int{0, 0}) || retry != 2*sec {
			t.Errorf("granted %v, retry in %v, want none and 2s", ns, retry)
		}
		want("after a denial", 6, 0)
		time.Sleep(2 * sec)
		if ns, _ = all(driver.Demand{Key: "a", Limit: window, N: 4}, driver.Demand{Key: "b", Limit: bucket, N: 2}); !slices.Equal(ns, []int{4, 2}) {
			t.Errorf("after RetryAfter: granted %v, want 4 and 2", ns)
		}
		want("after the second grant", 2, 0)

		// Demands on one state add up.
		time.Sleep(sec)
		one := driver.Demand{Key: "a", Limit: window, N: 1}
		ns, retry = all(one, one, one)
		if !slices.Equal(ns, []int{0, 0, 0}) || retry <= 0 {
			t.Errorf("three of two: granted %v, retry in %v, want none", ns, retry)
		}
		if ns, _ = all(one, one); !slices.Equal(ns, []int{1, 1}) {
			t.Errorf("two of two: granted %v", ns)
		}
		want("after them", 0, 1)
		none := driver.Demand{Key: "a", Limit: window}
		if ns, _ = all(none, driver.Demand{Key: "b", Limit: bucket, N: 1}); !slices.Equal(ns, []int{0, 1}) {
			t.Errorf("none of none and one of one: granted %v", ns)
		}
		time.Sleep(retry - time.Millisecond)
		if ns, _ = all(one, one, one); ns[0] != 0 {
			t.Errorf("before RetryAfter: granted %v, want none", ns)
		}
	})
}

// Limits of other rates on one state are seen together, too.
func TestTakeAllOnOneStateWithTwoRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, NewStore())
		wide, narrow := normal(t, "10/1m"), normal(t, "5/1m")
		for _, wantN := range []int{2, 0} {
			taken, err := c.TakeAll(t.Context(), []driver.Demand{{Key: "k", Limit: wide, N: 3}, {Key: "k", Limit: narrow, N: 2}})
			if err != nil || taken[1].Asks[0].N != wantN {
				t.Fatalf("TakeAll: %+v, %v, want %d of the second", taken, err, wantN)
			}
		}
		if got := c.remaining("k", wide); got != 5 {
			t.Errorf("%d remaining, want 5", got)
		}
	})
}

func TestLimitsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		c := open(t, s)
		limits := []driver.Limit{normal(t, "10/100ms"), normal(t, "10/100ms burst=3"), normal(t, "10/100ms fixed-window")}
		kept := normal(t, "10/24h")
		c.take("kept", kept, n(4))
		for i := range 100_000 {
			for range 1 + i%3 {
				c.take("k"+strconv.Itoa(i), limits[i%len(limits)], n(1))
			}
			if i%100 == 0 {
				time.Sleep(20 * time.Millisecond)
			}
		}
		if size := s.limits.size(); size > 2*shards*sweepFloor {
			t.Errorf("%d states left of 100000 keys", size)
		}
		for range 3 * shards {
			time.Sleep(sweepEvery)
			c.take("hot", limits[0], n(1))
		}
		if size := s.limits.size(); size > 2 {
			t.Errorf("%d states left, want two", size)
		}
		if got := c.remaining("kept", kept); got != 6 {
			t.Errorf("%d remaining of the key in debt, want 6", got)
		}
	})
}

func TestTakeOneDoesNotAllocate(t *testing.T) {
	for _, form := range []string{"1000000000/1m", "1000000000/1m fixed-window", "1000000000/1m burst=1000000"} {
		c := open(t, NewStore())
		l, ctx := normal(t, form), t.Context()
		c.take("k", l, n(1))
		if allocs := testing.AllocsPerRun(1000, func() {
			if _, err := c.TakeOne(ctx, "k", l, driver.Ask{Min: 1, N: 1}); err != nil {
				t.Error(err)
			}
		}); allocs != 0 {
			t.Errorf("%s: %v allocations, want none", form, allocs)
		}
	}
}

// Takes, multiple takes in any order of keys, and resets of another key at once:
// no deadlock, and exactly the limit is granted.
func TestContendedLimitsAreExact(t *testing.T) {
	s := NewStore()
	l := normal(t, "1000/24h")
	keys := []string{"a", "b", "c", "d"}
	var granted [4]atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		c := open(t, s)
		wg.Go(func() {
			for range 400 {
				i, j := rand.IntN(len(keys)), rand.IntN(len(keys))
				switch rand.IntN(3) {
				case 0:
					granted[i].Add(int64(c.take(keys[i], l, n(2)).N))
				case 1:
					taken, err := c.TakeAll(t.Context(), []driver.Demand{{Key: keys[i], Limit: l, N: 3}, {Key: keys[j], Limit: l, N: 1}})
					if err != nil {
						t.Error(err)
						return
					}
					granted[i].Add(int64(taken[0].Asks[0].N))
					granted[j].Add(int64(taken[1].Asks[0].N))
				default:
					wantErr(t, "Reset", c.Reset(t.Context(), "other", l), nil)
				}
			}
		})
	}
	wg.Wait()
	c := open(t, s)
	for i, key := range keys {
		if got := int(granted[i].Load()); got > 1000 || got+c.remaining(key, l) != 1000 {
			t.Errorf("%s: granted %d, %d remaining, want 1000 together", key, got, c.remaining(key, l))
		}
	}
}
