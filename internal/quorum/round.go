package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
)

const (
	// callBound is how long a call on one member takes, at most. It may go on after the round that made it.
	callBound = time.Second
	// silentCalls is how many calls are under way on a member that is silent, at most: on one that hangs they pile up, and
	// cost what those on the others wait for.
	silentCalls = 4
	// moment is how long a call waits for what it can do without, or as long as a majority took.
	moment = 5 * time.Millisecond
)

// errUnwanted is of a call that nobody waits for any more: no failure of the member.
var errUnwanted = errors.New("no longer wanted")

// result is what a member answered.
type result[T any] struct {
	from  int
	value T
	err   error
}

// round is one question to several members at once.
type round[T any] struct {
	began   time.Time
	members []*member
	results chan result[T]
	answers []*result[T] // by the index in members; nil: no answer yet
	missing int
}

// ask asks members, all at once. A call about hold h begins at a member once the ones before it about h have returned
// there, so that a release never overtakes the attempt.
func ask[T any](ctx context.Context, b *Backend, members []*member, h holdKey, do func(context.Context, *member, driver.Backend) (T, error)) *round[T] {
	return send(ctx, b, members, h, false, do)
}

// end is ask for calls that end hold h.
func end[T any](ctx context.Context, b *Backend, members []*member, h holdKey, do func(context.Context, *member, driver.Backend) (T, error)) *round[T] {
	return send(ctx, b, members, h, true, do)
}

func send[T any](ctx context.Context, b *Backend, members []*member, h holdKey, ends bool, do func(context.Context, *member, driver.Backend) (T, error)) *round[T] {
	n := len(members)
	r := &round[T]{began: time.Now(), members: members, results: make(chan result[T], n), answers: make([]*result[T], n), missing: n}
	for _, i := range inOrder(members) {
		m := members[i]
		before, leave, err := m.enter(h, ends)
		if err != nil {
			r.results <- result[T]{from: i, err: err}
			continue
		}
		if !b.start(func() {
			v, err := call(ctx, m, before, do)
			leave(err)
			r.results <- result[T]{i, v, err}
		}) {
			leave(driver.ErrClosed)
			r.results <- result[T]{from: i, err: driver.ErrClosed}
		}
	}
	return r
}

// call makes one call on m, once before is closed.
func call[T any](ctx context.Context, m *member, before <-chan struct{}, do func(context.Context, *member, driver.Backend) (T, error)) (v T, err error) {
	if before != nil {
		<-before // which is bounded, as this is
		if err := m.turn(); err != nil {
			return v, err
		}
	}
	bound := driver.NewBound(ctx, callBound)
	defer bound.Stop()
	s, err := m.open(bound)
	if err == nil {
		v, err = do(bound, m, s)
	}
	if !errors.Is(err, errUnwanted) {
		m.ended(err != nil && (!driver.Definite(err) || errors.Is(err, driver.ErrNotSent)))
	}
	return v, err
}

// gather takes answers until the outcome is decided, or all have answered. The calls that it does not wait for go on,
// each within its bound: so a member that is late gets what the others have. The error says that ctx ended first.
func (r *round[T]) gather(ctx context.Context, decided func() bool) error {
	for r.missing > 0 {
		select {
		case a := <-r.results:
			r.take(a)
			continue
		default:
		}
		if decided() {
			return nil
		}
		select {
		case a := <-r.results:
			r.take(a)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (r *round[T]) take(a result[T]) {
	r.answers[a.from] = &a
	r.missing--
}

// wait is gather for d at most.
func (r *round[T]) wait(ctx context.Context, d time.Duration, decided func() bool) {
	bound, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	_ = r.gather(bound, decided) // it says that there are more
}

// rest waits for the members that are left as long as it took until now, which is no long wait where a majority has answered.
func (r *round[T]) rest(ctx context.Context, decided func() bool) {
	r.wait(ctx, max(moment, time.Since(r.began)), decided)
}

// all never decides: every member is waited for.
func all() bool { return false }

// errs are the failures of a round, each with the member's name. isAnswer tells the errors that are none.
func (r *round[T]) errs(isAnswer func(error) bool) (failed []error) {
	for i, a := range r.answers {
		switch {
		case a == nil:
			failed = append(failed, fmt.Errorf("%s: no answer after %v", r.members[i], time.Since(r.began).Round(time.Millisecond)))
		case a.err != nil && !isAnswer(a.err):
			failed = append(failed, fmt.Errorf("%s: %w", r.members[i], a.err))
		}
	}
	return failed
}

// succeeded is how many members have answered without an error.
func (r *round[T]) succeeded() (n int) {
	for _, a := range r.answers {
		if a != nil && a.err == nil {
			n++
		}
	}
	return n
}
