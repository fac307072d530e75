package coord_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/observe"
)

// What a store knows the answer to at once is checked and told as all else is.
func TestQuickAnswers(t *testing.T) {
	ctx := t.Context()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	store := memory.NewStore()
	told := 0
	open := func(opts ...coord.Option) *coord.Client {
		c, err := coord.New(store.Open(), opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	long := strings.Repeat("k", coord.MaxKey)
	c, prefixed := open(), open(coord.WithPrefix("app/"))
	observed := open(coord.WithObserver(observe.Observer{Allowed: func(context.Context, observe.Decision) { told++ }}))
	closed := open()
	for _, limit := range []coord.Limit{coord.PerHour(100), {Rate: 100, Per: time.Hour, Burst: 100}, {Rate: 100, Per: time.Hour, Algorithm: coord.TokenBucket}} {
		if err := c.Reset(ctx, "app/k", limit); err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			for _, key := range []string{"k", long} {
				r, err := prefixed.Allow(ctx, key, limit)
				if err != nil || !r.Allowed || r.Granted != 1 || key == "k" && r.Remaining != 99-i {
					t.Fatalf("%v: ask %d: %+v, %v", limit, i, r, err)
				}
			}
		}
		if r, err := c.Allow(ctx, "app/k", limit); err != nil || r.Remaining != 89 {
			t.Errorf("%v: %+v, %v: want the same account under the key in full", limit, r, err)
		}
		for name, ask := range map[string]struct {
			want error
			call func() (coord.Result, error)
		}{
			"ended context": {context.Canceled, func() (coord.Result, error) { return c.Allow(ended, "app/k", limit) }},
			"too many":      {coord.ErrExceedsBurst, func() (coord.Result, error) { return c.AllowN(ctx, "app/k", limit, 101) }},
			"negative":      {coord.ErrInvalid, func() (coord.Result, error) { return c.AllowN(ctx, "app/k", limit, -1) }},
			"long key":      {coord.ErrInvalid, func() (coord.Result, error) { return c.Allow(ctx, "app/"+long, limit) }},
			"empty key":     {coord.ErrInvalid, func() (coord.Result, error) { return prefixed.Allow(ctx, "", limit) }},
			"bad limit":     {coord.ErrInvalid, func() (coord.Result, error) { return c.Allow(ctx, "app/k", coord.Limit{Rate: 100}) }},
		} {
			if r, err := ask.call(); !errors.Is(err, ask.want) || r != (coord.Result{}) {
				t.Errorf("%v: %s: %+v, %v: want %v", limit, name, r, err, ask.want)
			}
		}
		told = 0
		if r, err := observed.Allow(ctx, "app/k", limit); err != nil || r.Remaining != 88 || told != 1 {
			t.Errorf("%v: %+v, %v: observers were told %d times", limit, r, err, told)
		}
		if r, err := c.Peek(ctx, "app/k", limit); err != nil || !r.Allowed || r.Granted != 0 || r.Remaining != 88 {
			t.Errorf("%v: Peek: %+v, %v", limit, r, err)
		}
		if r, err := c.AllowAtMost(ctx, "app/k", limit, 100); err != nil || r.Granted != 88 {
			t.Errorf("%v: at most 100 of 88: %+v, %v", limit, r, err)
		}
		for range 3 {
			if r, err := c.Allow(ctx, "app/k", limit); err != nil || r.Allowed || r.RetryAfter <= 0 || r.ResetAfter < r.RetryAfter {
				t.Errorf("%v: of none: %+v, %v", limit, r, err)
			}
		}
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := closed.Allow(ctx, "app/k", coord.PerHour(100)); !errors.Is(err, coord.ErrClosed) {
		t.Errorf("%v: want ErrClosed", err)
	}
}
