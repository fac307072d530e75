package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/coordgo/coord"
)

// worker is one client's work: lock a key, alone or beside others, hold it, give it back, ask the limit.
type worker struct {
	scenario *Scenario
	check    *checker
	c        *coord.Client
	rand     *rand.Rand
}

func (w *worker) work(ctx context.Context) {
	for ctx.Err() == nil {
		w.lock(ctx, w.ask())
		for range 1 + w.rand.IntN(3) {
			w.limit(ctx)
		}
		pause(ctx, time.Duration(w.rand.IntN(20))*time.Millisecond)
	}
}

// ask is what a worker asks for.
type ask struct {
	key    int
	mode   string
	locker coord.Locker
	weight int64 // of the key's permits
	opts   []coord.LockOption
}

// ask chooses a key, and how to take it.
func (w *worker) ask() ask {
	a := ask{key: w.rand.IntN(len(w.check.keys)), weight: 1, opts: []coord.LockOption{coord.TTL(w.scenario.TTL)}}
	switch w.check.keys[a.key].of {
	case 1:
		a.mode, a.locker = exclusive, w.c
	case of:
		a.mode, a.locker = permits, w.c.Semaphore(of)
		if w.rand.IntN(4) == 0 {
			a.weight = 1 + w.rand.Int64N(of)
		}
		a.opts = append(a.opts, coord.Weight(int(a.weight)))
	case many:
		a.mode, a.locker = read, w.c.ReadWrite().Read()
		if w.rand.IntN(4) == 0 {
			a.mode, a.locker, a.weight = write, w.c.ReadWrite().Write(), many
		}
	}
	return a
}

// lock takes a key, holds it for a while, most often a short one, and at times for longer than its TTL, and gives it
// back.
func (w *worker) lock(ctx context.Context, a ask) {
	waiting, cancel := context.WithTimeout(ctx, 2*w.scenario.TTL)
	defer cancel()
	downgrades := a.mode == write && w.rand.IntN(2) == 0
	if downgrades {
		waiting = coord.WithOwner(waiting)
	}
	key, after := fmt.Sprint("chaos/", a.key), w.check.asks(a.key)
	call := w.check.clock.watch(waiting, "Lock")
	l, err := a.locker.Lock(waiting, key, a.opts...)
	w.check.returned(call, err)
	if err != nil {
		return
	}
	w.check.enter(a, l, after)
	w.hold(ctx, l)
	if downgrades {
		call := w.check.clock.watch(waiting, "Lock again")
		reader, err := w.c.ReadWrite().Read().Lock(waiting, key)
		w.check.returned(call, err)
		if err == nil {
			w.check.shrink(a.key, l, reader)
			unlock(ctx, w.check, l)
			w.hold(ctx, reader)
			l = reader
		}
	}
	w.check.leave(a.key, l)
	unlock(ctx, w.check, l)
}

// hold lets time pass while l is held.
func (w *worker) hold(ctx context.Context, l *coord.Lock) {
	section := time.Duration(w.rand.IntN(4000)) * time.Microsecond
	if w.rand.IntN(30) == 0 {
		section = w.scenario.TTL * 3 / 2
	}
	t := time.NewTimer(section)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.Done():
	case <-ctx.Done():
	}
}

// unlock gives l back. Unlock has a bound of its own.
func unlock(ctx context.Context, check *checker, l *coord.Lock) {
	freeing, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	call := check.clock.watch(freeing, "Unlock")
	err := l.Unlock(freeing)
	check.returned(call, err)
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
