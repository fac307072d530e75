package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/coordgo/coord"
)

// worker is one client's work: lock a key, hold it, give it back, ask the limit.
type worker struct {
	scenario *Scenario
	check    *checker
	c        *coord.Client
	rand     *rand.Rand
}

func (w *worker) work(ctx context.Context) {
	for ctx.Err() == nil {
		w.lock(ctx)
		for range 1 + w.rand.IntN(3) {
			w.limit(ctx)
		}
		pause(ctx, time.Duration(w.rand.IntN(20))*time.Millisecond)
	}
}

// lock takes a random key, holds it for a while, most often a short one, and at times
// for longer than its TTL, and gives it back.
func (w *worker) lock(ctx context.Context) {
	k := w.rand.IntN(w.scenario.Keys)
	waiting, cancel := context.WithTimeout(ctx, 2*w.scenario.TTL)
	defer cancel()
	call := w.check.clock.watch(waiting, "Lock")
	l, err := w.c.Lock(waiting, fmt.Sprint("chaos/", k), coord.TTL(w.scenario.TTL))
	w.check.returned(call, err)
	if err != nil {
		return
	}
	w.check.enter(k, l)
	section := time.Duration(w.rand.IntN(4000)) * time.Microsecond
	if w.rand.IntN(30) == 0 {
		section = w.scenario.TTL * 3 / 2
	}
	t := time.NewTimer(section)
	select {
	case <-t.C:
	case <-l.Done():
	case <-ctx.Done():
	}
	t.Stop()
	w.check.leave(k, l)
	// Unlock has a bound of its own.
	freeing, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	call = w.check.clock.watch(freeing, "Unlock")
	err = l.Unlock(freeing)
	w.check.returned(call, err)
}

// limit asks the limit that all share for one permit.
func (w *worker) limit(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, w.scenario.TTL)
	defer cancel()
	call := w.check.clock.watch(asking, "Allow")
	sent := time.Now()
	r, err := w.c.Allow(asking, "chaos/limit", w.scenario.Limit)
	now := time.Now()
	w.check.returned(call, err)
	if err == nil {
		w.check.answered(sent, now, r.Allowed)
	}
}

// expected are the errors that a store which is broken may cause.
var expected = []error{
	coord.ErrUnavailable, coord.ErrLocked, coord.ErrUnknownOutcome, coord.ErrLost,
	context.Canceled, context.DeadlineExceeded,
}

func isExpected(err error) bool {
	for _, e := range expected {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
