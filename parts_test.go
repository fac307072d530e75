package coord

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// twoServers is a store of two parts. Calls on keys that begin with "b" hang while it is
// broken, until their context ends.
type twoServers struct {
	*fakeStore
	mu     sync.Mutex
	broken bool
}

func newTwoServers() *twoServers {
	f := &twoServers{fakeStore: newFake()}
	f.setIntercept(func(op, key string) outcome {
		f.mu.Lock()
		defer f.mu.Unlock()
		return outcome{hang: f.broken && strings.HasPrefix(key, "b")}
	})
	return f
}

func (f *twoServers) breakB() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = true
}

// loseReplies loses the reply of each TryLock on the other part.
func (f *twoServers) loseReplies() {
	broken := f.intercept
	f.setIntercept(func(op, key string) outcome {
		if op == "trylock" && !strings.HasPrefix(key, "b") {
			return outcome{after: errWire}
		}
		return broken(op, key)
	})
}

func (f *twoServers) Partition(key string) string { return key[:1] }

// batchedServers renews in batches: one over both parts hangs with the broken one.
type batchedServers struct{ *twoServers }

func (f *batchedServers) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	out := make([]driver.Renewal, len(holds))
	for i, h := range holds {
		if out[i].Grant, out[i].Err = f.Renew(ctx, h.Key, h.Request); ctx.Err() != nil {
			for j := range out {
				out[j] = driver.Renewal{Err: ctx.Err()}
			}
			return out
		}
	}
	return out
}

// lockBoth takes n locks on each part.
func lockBoth(t *testing.T, c *Client, n int, opts ...LockOption) (a, b []*Lock) {
	t.Helper()
	for i := range n {
		a = append(a, must[*Lock](t)(c.Lock(t.Context(), fmt.Sprint("a", i), opts...)))
		b = append(b, must[*Lock](t)(c.Lock(t.Context(), fmt.Sprint("b", i), opts...)))
	}
	return a, b
}

// bothStores runs fn on a store that renews one by one and on one that does in batches.
func bothStores(t *testing.T, fn func(*testing.T, *Client, *twoServers)) {
	for name, wrap := range map[string]func(*twoServers) driver.Backend{
		"one by one": func(f *twoServers) driver.Backend { return f },
		"in batches": func(f *twoServers) driver.Backend { return &batchedServers{f} },
		"by Split":   func(f *twoServers) driver.Backend { return driver.Split(f, newFakeLimits()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newTwoServers()
				c, err := New(wrap(f), WithLogger(slog.New(slog.DiscardHandler)))
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				fn(t, c, f)
			})
		})
	}
}

// A part that hangs costs no hold on the other, for as long as it hangs.
func TestRenewalsOfAPartThatHangs(t *testing.T) {
	bothStores(t, func(t *testing.T, c *Client, f *twoServers) {
		const ttl = 6 * time.Second
		a, b := lockBoth(t, c, 300, TTL(ttl))
		f.breakB()
		time.Sleep(4 * ttl)
		lost := 0
		for _, l := range a {
			if l.Err() != nil {
				lost++
			}
		}
		if lost > 0 {
			t.Errorf("%d of %d locks on the part that serves were lost", lost, len(a))
		}
		for _, l := range b {
			wantErr(t, l.Err(), ErrLost)
		}
	})
}

// Close gives back all that is on the part that serves, within its bound.
func TestCloseWithAPartThatHangs(t *testing.T) {
	bothStores(t, func(t *testing.T, c *Client, f *twoServers) {
		a, _ := lockBoth(t, c, 300)
		f.breakB()
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > closeBound+unlockTry {
			t.Errorf("Close took %v", took)
		}
		kept := 0
		for i := range a {
			if f.held(fmt.Sprint("a", i)) {
				kept++
			}
		}
		if kept > 0 {
			t.Errorf("%d of %d locks on the part that serves were not given back", kept, len(a))
		}
	})
}

// What lost replies leave behind on the part that serves is removed at once, and when the
// client closes too.
func TestCleanUpOfAPartThatHangs(t *testing.T) {
	bothStores(t, func(t *testing.T, c *Client, f *twoServers) {
		const n = 100
		f.breakB()
		f.loseReplies()
		leave := func(part string, from, to int) {
			for i := from; i < to; i++ {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				_, err := c.TryLock(ctx, fmt.Sprint(part, i), TTL(time.Hour))
				wantErr(t, err, ErrUnknownOutcome)
				cancel()
			}
		}
		left := func() (n int) {
			for key := range f.leases {
				if key[0] == 'a' {
					n++
				}
			}
			return n
		}
		leave("b", 0, n)
		leave("a", 0, n)
		synctest.Wait()
		if n := left(); n != 0 {
			t.Errorf("%d keys of the part that serves are still taken", n)
		}
		leave("b", n, 2*n)
		leave("a", n, 2*n)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if n := left(); n != 0 {
			t.Errorf("%d keys of the part that serves are still taken after Close", n)
		}
	})
}
