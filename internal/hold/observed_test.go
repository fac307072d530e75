package hold

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/observe"
)

// batched is a store that renews several holds by one request.
type batched struct{ *fakeStore }

func (b batched) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	answers := make([]driver.Renewal, len(holds))
	for i, h := range holds {
		answers[i].Grant, answers[i].Err = b.Renew(ctx, h.Key, h.Request)
	}
	return answers
}

// acting is an observer that does something in one kind of event.
func acting(in string, act func()) observe.Observer {
	switch in {
	case "Renewed":
		return observe.Observer{Renewed: func(context.Context, observe.Renewed) { act() }}
	case "Lost":
		return observe.Observer{Lost: func(context.Context, observe.Lost) { act() }}
	}
	panic(in)
}

// many locks so many keys, each with this observer.
func many(t *testing.T, m *Manager, n int, maxHold time.Duration, o observe.Observer) (all []*Tenure) {
	for i := range n {
		k := fmt.Sprint("k", i)
		all = append(all, lockAs(t, m, Spec{Name: k, Key: k, Lease: testTTL, MaxHold: maxHold, Owner: nobody{}}, traced(t, o)))
	}
	return all
}

// bad makes observers that are stuck in one kind of event, until goOn, or end their goroutine there.
var bad = map[string]func(in string) (o observe.Observer, goOn func()){
	"stuck": func(in string) (observe.Observer, func()) {
		may := make(chan struct{})
		return acting(in, func() { <-may }), func() { close(may) }
	},
	"ends its goroutine": func(in string) (observe.Observer, func()) { return acting(in, runtime.Goexit), func() {} },
}

// manyHolds is more than are renewed, or given back, at a time.
const manyHolds = 40

// An observer that is stuck in an event of a hold, or ends its goroutine there, costs no hold its renewal, be it one of a batch
// or not.
func TestObserverCostsNoRenewal(t *testing.T) {
	for name, make := range bad {
		for _, batch := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, batch %v", name, batch), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := &fakeStore{}
					m := newManager(t, f)
					if batch {
						m.store.Locker = batched{f}
					}
					o, goOn := make("Renewed")
					all := append(many(t, m, manyHolds, 0, o), lock(t, m, 0, nil))
					time.Sleep(testTTL * 2 / 5)
					for _, tenure := range all {
						if left := time.Until(tenure.Deadline()); left < testTTL*3/4 {
							t.Errorf("%s: %v are left of its lease: not renewed", tenure.Name(), left)
						}
					}
					goOn()
					time.Sleep(3 * testTTL)
					for _, tenure := range all {
						if err := tenure.Check(); err != nil {
							t.Errorf("%s: %v", tenure.Name(), err)
						}
					}
				})
			})
		}
	}
}

// An observer that is stuck in the loss of a hold, or ends its goroutine there, costs no other key that was lost with it.
func TestObserverCostsNoOtherKey(t *testing.T) {
	for name, make := range bad {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newManager(t, &fakeStore{})
				o, goOn := make("Lost")
				lock(t, m, time.Second, traced(t, o))
				many(t, m, 1, time.Second, observe.Observer{})
				time.Sleep(2 * time.Second)
				for _, again := range many(t, m, 1, 0, observe.Observer{}) {
					release(t, again)
				}
				goOn()
				release(t, lock(t, m, 0, nil))
				time.Sleep(2 * taskGrace)
				wantNothing(t, m)
			})
		})
	}
}

// All holds are given back, though observers end the goroutines that do it.
func TestObserverCostsNoGivingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{}
		m := newManager(t, f)
		many(t, m, manyHolds, 0, acting("Lost", runtime.Goexit))
		m.Stop()
		m.GiveBack(t.Context())
		if len(f.holders) > 0 {
			t.Errorf("%d keys are still taken", len(f.holders))
		}
	})
}
