package conformance

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

type queueing = driver.Backend

// keepsPlaces leaves whoever has come into the queue there, after its caller has gone.
type keepsPlaces struct {
	queueing
	gone *sync.Map // the ids of such callers
}

func (b keepsPlaces) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	type granted struct {
		driver.Grant
		err error
	}
	answer, waiting := make(chan granted, 1), make(chan struct{}, 1)
	go func() {
		g, err := b.queueing.Lock(context.WithoutCancel(ctx), key, r, func() { waiting <- struct{}{} })
		answer <- granted{g, err}
	}()
	for {
		select {
		case <-waiting: // told while the call lasts
			waits()
		case a := <-answer:
			return a.Grant, a.err
		case <-ctx.Done():
			b.gone.Store(r.ID, true)
			return driver.Grant{}, ctx.Err()
		}
	}
}

func (b keepsPlaces) Unlock(ctx context.Context, key, id string) error {
	if _, gone := b.gone.Load(id); gone {
		return nil // "withdrawn"
	}
	return b.queueing.Unlock(ctx, key, id)
}

// deaf answers long after its caller has gone.
type deaf struct{ queueing }

func (b deaf) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.queueing.TryLock(ctx, key, r)
	if at, _ := ctx.Deadline(); time.Until(at) < time.Second {
		<-ctx.Done()
		<-time.After(5 * time.Second)
	}
	return g, err
}

func TestFaultLoopFinds(t *testing.T) {
	for name, test := range map[string]struct {
		broken func(queueing) driver.Backend
		uses   []string
		says   string
	}{
		"a waiter that is never withdrawn": {func(q queueing) driver.Backend { return keepsPlaces{q, new(sync.Map)} }, []string{"Lock that is cancelled"}, "saw it still locked"},
		"a call that outlives its context": {func(q queueing) driver.Backend { return deaf{q} }, []string{"TryLock and Unlock"}, "at most 350ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var res Result
			synctest.Test(t, func(t *testing.T) {
				s := memory.NewStore()
				h := Harness{Open: func(TB) driver.Backend { return test.broken(s.Open()) }, Claims: memory.Claims, FakeTime: true}
				res = outcome(t, h, Case{run: faultLoop(byDriver, usesOf(lockUsages, test.uses...), hangingKinds()[:1])})
			})
			if res.Outcome != Fail || res.explainedBy(test.says) == "" {
				t.Errorf("%s, %v: want a failure that says %q", res.Outcome, res.Messages, test.says)
			}
		})
	}
}
