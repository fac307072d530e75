package coord

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// panicky panics in one kind of call, once.
func panicky(f *fakeStore, op string) {
	done := false
	f.setIntercept(func(o, key string) outcome {
		if o == op && !done {
			done = true
			panic("out of cheese")
		}
		return outcome{}
	})
}

// A driver that panics in a call that the client makes by itself, in the background or while it
// closes, does not end the program: the call has failed, and the log says why.
func TestDriverPanicsInTheBackground(t *testing.T) {
	lease := func(t *testing.T, f *fakeStore, c *Client) {
		hoard(t, c, leasing["fixed-window"])
		panicky(f, "refund")
	}
	for name, tt := range map[string]struct {
		run func(t *testing.T, f *fakeStore, c *Client)
	}{
		"refund of what nobody asks for": {func(t *testing.T, f *fakeStore, c *Client) {
			lease(t, f, c)
			time.Sleep(time.Second)
		}},
		"refund at Close": {func(t *testing.T, f *fakeStore, c *Client) {
			lease(t, f, c)
			must[any](t)(nil, c.Close())
		}},
		"unlock at Close": {func(t *testing.T, f *fakeStore, c *Client) {
			must[*Lock](t)(c.Lock(t.Context(), "k"))
			panicky(f, "unlock")
			must[any](t)(nil, c.Close())
		}},
		"renewal": {func(t *testing.T, f *fakeStore, c *Client) {
			l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(time.Second)))
			panicky(f, "renew")
			time.Sleep(5 * time.Second)
			if err := l.Err(); err != nil {
				t.Errorf("%v: want one renewal to fail and the next to succeed", err)
			}
		}},
		"removal of an orphan": {func(t *testing.T, f *fakeStore, c *Client) {
			f.setIntercept(func(op, key string) outcome { return outcome{after: errWire} })
			if _, err := c.TryLock(t.Context(), "k", TTL(time.Hour)); err == nil {
				t.Fatal("no error without an answer")
			}
			panicky(f, "unlock")
			time.Sleep(5 * time.Second)
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.live("k") != nil {
				t.Error("the orphan is still there")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, log := newFakeLimits(), &logBuffer{}
				c := newTestClient(t, f, WithPermitLease(PermitLease{}), WithLogger(slog.New(slog.NewTextHandler(log, nil))))
				tt.run(t, f.fakeStore, c)
				synctest.Wait()
				if !strings.Contains(log.String(), "out of cheese") {
					t.Errorf("log: %s", log.String())
				}
			})
		})
	}
}

// panickyBatch panics in its first RenewAll.
type panickyBatch struct {
	*fakeStore
	panicked bool
}

func (f *panickyBatch) RenewAll(ctx context.Context, holds []driver.Hold) (out []driver.Renewal) {
	if !f.panicked {
		f.panicked = true
		panic("out of cheese")
	}
	for _, h := range holds {
		g, err := f.Renew(ctx, h.Key, h.Request)
		out = append(out, driver.Renewal{Grant: g, Err: err})
	}
	return out
}

func TestDriverPanicsInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, log := &panickyBatch{fakeStore: newFake()}, &logBuffer{}
		c := newTestClient(t, f, WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		a := must[*Lock](t)(c.Lock(t.Context(), "a", TTL(time.Second)))
		b := must[*Lock](t)(c.Lock(t.Context(), "b", TTL(time.Second)))
		time.Sleep(5 * time.Second)
		for _, l := range []*Lock{a, b} {
			if err := l.Err(); err != nil {
				t.Errorf("%s: %v", l.Key(), err)
			}
		}
		if !f.panicked || !strings.Contains(log.String(), "out of cheese") {
			t.Errorf("panicked %v, log: %s", f.panicked, log.String())
		}
	})
}

// A panic of the store in a call of Lock or Unlock is an error of unknown outcome, and nothing stays
// locked: neither in the client nor, once it has cleaned up, in the store.
func TestPanicLeavesNothingLocked(t *testing.T) {
	for name, test := range map[string]struct {
		op    string // that panics
		owned bool
		queue bool
		opts  []LockOption
	}{
		"TryLock":              {op: "trylock"},
		"TryLock of an owner":  {op: "trylock", owned: true},
		"in the store's queue": {op: "trylock", queue: true, opts: []LockOption{Fair()}},
		"Unlock":               {op: "unlock"},
		"Unlock of an owner":   {op: "unlock", owned: true},
		"Unlock with NoRenew":  {op: "unlock", opts: []LockOption{NoRenew()}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				var b driver.Backend = f
				if test.queue {
					q := newFairFake()
					b, f = q, q.fakeStore
				}
				c := newTestClient(t, b)
				ctx := t.Context()
				if test.owned {
					ctx = WithOwner(ctx)
				}
				panicky(f, test.op)
				l, err := c.Lock(ctx, "k", test.opts...)
				if test.op == "unlock" { // the second call is answered
					unlock(t, l)
				} else {
					wantErr(t, err, ErrUnavailable, ErrUnknownOutcome)
				}
				start := time.Now()
				for range 2 { // once as another, and once as who had the panic
					unlock(t, must[*Lock](t)(c.Lock(t.Context(), "k")))
					unlock(t, must[*Lock](t)(c.Lock(ctx, "k")))
				}
				if took := time.Since(start); took > time.Second {
					t.Errorf("the key was free after %v", took)
				}
				time.Sleep(DefaultTTL + 2*cleanUpGrace)
				if left := c.leftovers(); left != (leftovers{}) {
					t.Errorf("left behind: %+v", left)
				}
			})
		})
	}
}

// When the store panics for the goroutine of an owner that asks, the next one of the owner asks.
func TestPanicPassesTheAttemptOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		ctx := WithOwner(t.Context())
		armed, gate := true, make(chan struct{})
		f.setIntercept(func(op, _ string) outcome {
			if armed && op == "trylock" {
				armed = false
				<-gate
				panic("out of cheese")
			}
			return outcome{}
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := c.Lock(ctx, "k")
			wantErr(t, err, ErrUnknownOutcome)
		})
		synctest.Wait()
		second := waitFor(ctx, c)
		close(gate)
		wg.Wait()
		l := (<-second).lock(t)
		if !f.held("k") {
			t.Error("the second goroutine has a lock that the store does not know")
		}
		unlock(t, l)
	})
}
