package optimistic

import (
	"context"
	"sync"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// Change is one decision on the state of a limit.
type Change struct {
	Limit driver.Limit
	// Apply decides on s at now, in Unix microseconds, and reports whether s has to be written. It changes s only
	// then. It may be called several times: the last call counts. It is not called once the change has succeeded.
	Apply func(s *limits.State, now int64) (changed bool)
	// Peek says that Apply never changes anything.
	Peek bool
}

// Update makes a change to the state of key under c.Limit, in one atomic step. An error follows the rule of package
// driver: after one for which [driver.Definite] is false, the change may have been made, or may yet be made.
type Update func(ctx context.Context, key string, c Change) error

// Limiter makes the methods of [driver.Limiter], but TakeAll, out of an [Update]. An adapter embeds it instead of
// [driver.Unimplemented], and claims [driver.Reserve] and [driver.Charge].
type Limiter struct {
	driver.Unimplemented
	update Update
}

// NewLimiter makes a Limiter.
func NewLimiter(u Update) Limiter { return Limiter{update: u} }

// Take implements [driver.Limiter].
func (m Limiter) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if err := limits.CheckEach(l, asks); err != nil {
		return driver.Taken{}, err
	}
	peek := true
	for _, a := range asks {
		peek = peek && a.N == 0
	}
	// After an error Apply may still be running: what it writes to is then not read.
	var taken driver.Taken
	err := m.update(ctx, key, Change{Limit: l, Peek: peek, Apply: func(s *limits.State, now int64) (changed bool) {
		taken, changed = s.TakeEach(l, now, asks)
		return changed
	}})
	if err != nil {
		return driver.Taken{}, err
	}
	return taken, nil
}

// TakeOne implements [driver.Limiter].
func (m Limiter) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	if err := limits.Check(l, a); err != nil {
		return driver.TakenOne{}, err
	}
	t := takings.Get().(*taking)
	t.l, t.a = l, a
	if err := m.update(ctx, key, Change{Limit: l, Peek: a.N == 0, Apply: t.apply}); err != nil {
		return driver.TakenOne{}, err // t may still be in use
	}
	one := t.one
	takings.Put(t)
	return one, nil
}

// taking is one TakeOne. It is used again, as decisions are many.
type taking struct {
	l     driver.Limit
	a     driver.Ask
	one   driver.TakenOne
	apply func(*limits.State, int64) bool // take
}

var takings = sync.Pool{New: func() any {
	t := new(taking)
	t.apply = t.take
	return t
}}

func (t *taking) take(s *limits.State, now int64) (changed bool) {
	return s.TakeInto(&t.one, &t.l, now, &t.a)
}

// Refund implements [driver.Limiter].
func (m Limiter) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	if id == "" || n <= 0 {
		return nil
	}
	return m.update(ctx, key, Change{Limit: l, Apply: func(s *limits.State, now int64) bool {
		return s.Refund(l, now, id, n)
	}})
}

// Charge implements [driver.Limiter].
func (m Limiter) Charge(ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
	if err := limits.CheckCharge(n); err != nil {
		return driver.Charged{}, err
	}
	// After an error Apply may still be running: what it writes to is then not read.
	var c driver.Charged
	err := m.update(ctx, key, Change{Limit: l, Peek: n == 0, Apply: func(s *limits.State, now int64) (changed bool) {
		c, changed = s.Charge(l, now, n)
		return changed
	}})
	if err != nil {
		return driver.Charged{}, err
	}
	return c, nil
}

// Reset implements [driver.Limiter]. It writes a fresh state, which expires at once.
func (m Limiter) Reset(ctx context.Context, key string, l driver.Limit) error {
	return m.update(ctx, key, Change{Limit: l, Apply: func(s *limits.State, now int64) bool {
		if s.Expiry(l, now) == 0 {
			return false // as fresh
		}
		*s = limits.State{}
		return true
	}})
}
