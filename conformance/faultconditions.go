package conformance

import (
	"context"

	"github.com/coordgo/coord"
)

// conditionUsages are the uses of a condition that the fault loop goes through.
func conditionUsages(*env) []usage {
	all := []usage{
		{name: "Wait", run: useConditionWait},
		{name: "Signal", run: useSignal},
		{name: "Broadcast", run: useBroadcast},
	}
	for i := range all {
		all[i].free = conditionFree
	}
	return all
}

// conditionFree waits until the run's key can be taken, and nobody waits.
func conditionFree(f *faultRun) {
	f.leftFree()
	f.until(f.freeBy, "nobody to be left of those who waited", func() bool { return len(f.sharersOf(f.rival.Shared(), conditionKey(f.k))) == 0 })
}

// useConditionWait waits, and is signalled as soon as it has a place.
func useConditionWait(f *faultRun) {
	ctx, cancel := context.WithTimeout(f.ctx, 2*hangFor)
	defer cancel()
	returned := make(chan struct{})
	result := async(func() error {
		defer close(returned)
		return coord.Do(ctx, f.c, f.k, func(ctx context.Context) error {
			if err := f.condition(f.c, f.k).Wait(ctx); err != nil {
				return err
			}
			if l, held := coord.Held(ctx, f.k); held {
				f.holds(l)
			}
			return nil
		}, coord.TTL(f.long))
	})
	f.until(soon, "a waiter to have its place, or to fail", func() bool {
		select {
		case <-returned:
			return true
		default:
		}
		for id := range f.sharersOf(f.rival.Shared(), conditionKey(f.k)) {
			_ = f.rival.Shared().Unlock(f.within(soon), conditionKey(f.k), id) // it may have left meanwhile
			return true
		}
		return false
	})
	if err := recv(f.env, result, 2*hangFor+soon, "a waiter to go on, or to fail"); err != nil {
		f.meaningful("Do whose function waits", err)
	}
}

func useSignal(f *faultRun) { f.tellWaiters(1, condition.Signal) }

func useBroadcast(f *faultRun) { f.tellWaiters(2, condition.Broadcast) }

// tellWaiters wakes n waiters of another client.
func (f *faultRun) tellWaiters(n int, tell func(condition, context.Context) error) {
	var ids []string
	for range n {
		r, _ := f.enter(f.rival.Shared(), conditionKey(f.k), reader, "the place of a waiter")
		ids = append(ids, r.ID)
	}
	told := false
	_ = f.call("Do whose function signals", func(ctx context.Context) error {
		return coord.Do(ctx, f.c, f.k, func(ctx context.Context) error {
			err := tell(f.condition(f.c, f.k), ctx)
			told = err == nil
			return err
		}, coord.TTL(f.long))
	})
	if left := len(f.sharersOf(f.rival.Shared(), conditionKey(f.k))); told && left > 0 {
		f.Errorf("those who wait, after a signal for each: saw %d, want none", left)
	}
	for _, id := range ids {
		_ = f.rival.Shared().Unlock(f.within(soon), conditionKey(f.k), id) // it may have been signalled
	}
}
