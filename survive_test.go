package coord

import (
	"context"
	"log/slog"
	"strings"
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
