package middleware

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/middleware/middlewaretest"
)

// onlooker sees a pause in the moment in which it comes into the store.
type onlooker struct {
	*coord.Client
	saw time.Duration
}

func (o *onlooker) TryLock(ctx context.Context, key string, opts ...coord.LockOption) (*coord.Lock, error) {
	l, err := o.Client.TryLock(ctx, key, opts...)
	if h, err := o.Inspect(ctx, key); err == nil {
		o.saw = h.TTL
	}
	return l, err
}

// At no moment does the store say that a pause is longer than it is.
func TestPauseIsAsLongAsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &onlooker{Client: middlewaretest.Client(t)}
		out := &Outgoing{Op: "test", Shared: store, Pauses: &Pauses{}}
		out.Learn(t.Context(), "k", 2*time.Second)
		if store.saw != 2*time.Second {
			t.Errorf("a pause of 2s was one of %v at first", store.saw)
		}
		if h, err := store.Inspect(t.Context(), pauseKey("k")); err != nil || h.TTL != 2*time.Second {
			t.Errorf("%v, %v: want it to be one of 2s", h.TTL, err)
		}
	})
}

// silent is a store that does not answer.
type silent struct{ *coord.Client }

func (silent) Inspect(ctx context.Context, _ string) (coord.Holder, error) {
	<-ctx.Done()
	return coord.Holder{}, ctx.Err()
}

// A store of pauses that is silent keeps nobody for longer than a moment, whatever the caller's context allows.
func TestSilentStoreOfPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middlewaretest.Client(t)
		out := &Outgoing{Op: "test", Limiter: c, Limit: coord.PerSecond(10), Shared: silent{c}, Pauses: &Pauses{}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := out.Admit(ctx, "k"); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > storeWithin {
			t.Errorf("admitted after %v", took)
		}
	})
}

// What has passed is removed, and how often all are looked through does not depend on how many there are.
func TestPausesOfManyHosts(t *testing.T) {
	var p times
	now := time.Now()
	swept, before := 0, 0
	for i := range 100_000 {
		was := len(p.at)
		p.set(strconv.Itoa(i), now.Add(time.Second), now)
		if len(p.at) <= was || p.sweep != before {
			swept, before = swept+was, p.sweep
		}
		now = now.Add(time.Millisecond) // so that 1000 are in the future
	}
	if swept > 400_000 {
		t.Errorf("%d entries were looked at for 100000 calls", swept)
	}
	if len(p.at) > 4000 {
		t.Errorf("%d are kept where 1000 count", len(p.at))
	}
}
