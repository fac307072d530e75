package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// limitUsages are the uses of limits that the fault loop goes through.
func limitUsages(e *env) []usage {
	var list []usage
	for name, limit := range still(faultPermits) {
		list = append(list,
			usage{name: "Allow, AllowN and AllowAtMost of a " + name, run: func(f *faultRun) { useAllow(f, limit) }},
			usage{name: "Peek of a " + name, run: func(f *faultRun) { usePeek(f, limit) }},
			usage{name: "Reset of a " + name, run: func(f *faultRun) { useReset(f, limit) }},
			usage{name: "Charge and Settle of a " + name, needs: driver.Charge, run: func(f *faultRun) { useCharge(f, limit) }},
			usage{name: "TakeAll of a " + name, needs: driver.AtomicMulti, run: func(f *faultRun) { useTakeAll(f, limit) }})
	}
	return e.possible(append(list,
		usage{name: "Wait", run: useWait},
		usage{name: "Reserve and Cancel", needs: driver.Reserve, run: useReserve},
	))
}

// faultPermits is the limit of the runs, which do not ask for all of it.
const faultPermits = 20

// tally is what a run was granted, and what it asked for without an answer, of which some was applied for sure.
type tally struct{ granted, doubtful, sure int }

// spent fails the run unless the store has counted what was granted, and at most what was asked for
// without an answer beside it.
func (f *faultRun) spent(key string, limit driver.Limit, t tally) {
	left := f.ask(f.rival, key, limit, 0, 0).Remaining
	if most := limit.Max() - t.granted - t.sure; left > most {
		f.Errorf("left of %v after %d were granted, and %d applied without an answer: saw %d, want at most %d: more can be granted than the limit", limit, t.granted, t.sure, left, most)
	}
	// A client library that sends it again may debit twice: the safe direction.
	if least := limit.Max() - t.granted - 2*t.doubtful; left < least {
		f.Errorf("left of %v after %d were granted and %d asked for without an answer: saw %d, want at least %d: permits are lost", limit, t.granted, t.doubtful, left, least)
	}
}

func (f *faultRun) tell(t *tally, r coord.Result, err error, n int) {
	if err == nil {
		t.granted += r.Granted
		return
	}
	t.doubtful += n
	if f.lost && !errors.Is(err, driver.ErrNotSent) {
		f.unsettled(err, "a take that was applied without an answer")
		if f.timely() { // a machine may be too late for a call whose reply is to be lost
			t.sure += n
		}
	}
}

func useAllow(f *faultRun, limit driver.Limit) {
	var t tally
	ask := func(op string, n int, fn func(ctx context.Context) (coord.Result, error)) {
		var r coord.Result
		err := f.call(op, func(ctx context.Context) (err error) {
			r, err = fn(ctx)
			return err
		})
		if err == nil && !r.Allowed {
			f.Errorf("%s with enough left: saw a denial", op)
		}
		f.tell(&t, r, err, n)
	}
	ask("Allow", 1, func(ctx context.Context) (coord.Result, error) { return f.c.Allow(ctx, f.k, limit) })
	ask("AllowN", 3, func(ctx context.Context) (coord.Result, error) { return f.c.AllowN(ctx, f.k, limit, 3) })
	ask("AllowAtMost", 4, func(ctx context.Context) (coord.Result, error) { return f.c.AllowAtMost(ctx, f.k, limit, 4) })
	f.spent(f.k, limit, t)
}

func usePeek(f *faultRun, limit driver.Limit) {
	f.grantedN(f.ask(f.rival, f.k, limit, 5, 5), 5, "5 of a fresh key")
	var r coord.Result
	err := f.call("Peek", func(ctx context.Context) (err error) {
		r, err = f.c.Peek(ctx, f.k, limit)
		return err
	})
	if err == nil && r.Remaining != limit.Max()-5 {
		f.Errorf("Peek after 5 were spent: saw %d left, want %d", r.Remaining, limit.Max()-5)
	}
	f.spent(f.k, limit, tally{granted: 5})
}

// useReset resets a limit that is spent, and spends some of it then.
func useReset(f *faultRun, limit driver.Limit) {
	all := limit.Max()
	f.grantedN(f.ask(f.rival, f.k, limit, all, all), all, "all of a fresh key")
	err := f.call("Reset", func(ctx context.Context) error { return f.c.Reset(ctx, f.k, limit) })
	left := f.ask(f.rival, f.k, limit, 0, 0).Remaining
	if err == nil && left != all || left != 0 && left != all {
		f.Errorf("left after Reset, which gave %v: saw %d, want %d, or 0 if it may not have been applied", err, left, all)
	}
}

// useTakeAll is about the driver alone: the client does not use it.
func useTakeAll(f *faultRun, limit driver.Limit) {
	const n = 3
	keys := []string{f.k + " a", f.k + " b"}
	var demands []driver.Demand
	for _, key := range keys {
		demands = append(demands, driver.Demand{Key: key, Limit: limit, N: n})
	}
	t := tally{doubtful: n}
	ctx, cancel := context.WithTimeout(f.ctx, f.allowed())
	defer cancel()
	start := time.Now()
	_, err := f.b.TakeAll(ctx, demands)
	f.env.inTime(start, f.allowed()+prompt, "TakeAll")
	if err == nil {
		t = tally{granted: n}
	}
	left := func(key string) int { return f.ask(f.rival, key, limit, 0, 0).Remaining }
	for _, key := range keys {
		f.spent(key, limit, t)
	}
	// What the caller no longer waits for may be applied between two looks.
	f.until(soon, "TakeAll of two limits to have taken of both the same, or of none", func() bool {
		before := left(keys[0])
		return before == left(keys[1]) && before == left(keys[0])
	})
}

func useWait(f *faultRun) {
	limit := normal(driver.Limit{Rate: 20, Per: time.Second, Burst: 1})
	var spends []spend
	for range 3 {
		sent := time.Now()
		if f.call("Wait", func(ctx context.Context) error { return f.c.Wait(ctx, f.k, limit) }) == nil {
			spends = append(spends, spend{sent, time.Now(), 1})
		}
	}
	if over := overBucket(spends, limit); over > 0 {
		f.Errorf("Wait under %v: saw it overdrawn by %d permits, want none", limit, over)
	}
}

// useReserve reserves behind a permit that is spent, and gives that back.
func useReserve(f *faultRun) {
	limit := normal(driver.Limit{Rate: 10, Per: 10 * time.Minute, Burst: 1})
	each := limit.Per / time.Duration(limit.Rate)
	first := f.ask(f.rival, f.k, limit, 1, 1)
	f.grantedN(first, 1, "the first permit")
	var res *coord.Reservation
	err := f.call("Reserve", func(ctx context.Context) (err error) {
		res, err = f.c.Reserve(ctx, f.k, limit, 1)
		return err
	})
	reserved, cancelled := err == nil, false
	if reserved {
		// Two clients have asked, and each may follow the store's clock from its own distance.
		const apart = 50 * time.Millisecond
		if d := res.Delay(); d > each+apart || d < each-time.Since(first.sent)-apart {
			f.Errorf("Delay of the next permit: saw %v, want %v less what has passed, give or take %v", d, each, apart)
		}
		err = f.call("Cancel", res.Cancel)
		cancelled = err == nil
		if errors.Is(err, coord.ErrLimited) {
			f.Errorf("Cancel: saw %v", err)
		}
		_ = f.call("second Cancel, which does nothing", res.Cancel)
	}
	next := f.askFor(f.rival, f.k, limit, driver.Ask{Min: 1, N: 1, MaxDelay: 5 * each})
	f.grantedN(next, 1, "a reservation after the faults")
	passed := time.Since(first.sent) + time.Millisecond
	least, most := each-passed, 2*each
	switch {
	case cancelled:
		most = each
	case !reserved:
		most = 3 * each // the library may have sent it twice
	}
	if next.Delay < least || next.Delay > most+time.Millisecond {
		f.Errorf("Delay of the next permit, reserved %v, given back %v: saw %v, want %v to %v", reserved, cancelled, next.Delay, least, most)
	}
}
