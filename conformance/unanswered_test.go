package conformance

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance/internal/runner"
	"github.com/coordgo/coord/driver"
)

// stalled is a store of which all clients stand still for a time.
type stalled struct {
	wholeStore
	*freeze
}

// wholeStore is what the memory store can do.
type wholeStore interface {
	driver.Backend
	driver.Locker
	driver.Queuer
	driver.DelayedUnlocker
	driver.Inspector
	driver.Breaker
	driver.Sharer
	driver.Pinger
	driver.Limiter
	driver.MultiLimiter
	driver.Refunder
}

type freeze struct {
	mu       sync.Mutex
	from, to time.Time
}

// wait waits until the store goes on, or ctx ends.
func (f *freeze) wait(ctx context.Context) error {
	f.mu.Lock()
	from, to := f.from, f.to
	f.mu.Unlock()
	if time.Now().Before(from) || !time.Now().Before(to) {
		return nil
	}
	select {
	case <-time.After(time.Until(to)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f stalled) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := f.wait(ctx); err != nil {
		return driver.Grant{}, err
	}
	return f.wholeStore.TryLock(ctx, key, r)
}

func (f stalled) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := f.wait(ctx); err != nil {
		return driver.Grant{}, err
	}
	return f.wholeStore.Renew(ctx, key, r)
}

// A store that answered nobody for most of a lease has not lost a lock by what it refused: the case runs once more.
// A lock that is lost while the store answers others is a failure.
func TestStoreThatAnsweredNobody(t *testing.T) {
	for name, test := range map[string]struct {
		all   bool // clients stand still
		want  Outcome
		again bool
	}{
		"all clients stand still": {all: true, want: Pass, again: true},
		"one client stands still": {want: Fail},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared, f := memory.NewStore(), &freeze{}
			opened := 0
			h := Harness{Claims: memory.Claims, Open: func(TB) driver.Backend {
				opened++
				of := f
				if !test.all && opened > 2 { // the first is the suite's, the second the client under test
					of = &freeze{}
				}
				return stalled{shared.Open().(wholeStore), of}
			}}
			res := outcome(t, h, Case{run: func(e *env) {
				opened = 1 // it may run once more
				real := e.r.stalls
				defer func() { e.r.stalls = real }()
				e.r.stalls = &runner.StallDetector{}
				e.r.stalls.Note(time.Now().Add(time.Minute), runner.Stall) // as on any busy machine
				if !test.all || !e.c.again {
					f.mu.Lock()
					f.from = time.Now().Add(refusalLease / 4)
					f.to = f.from.Add(refusalLease)
					f.mu.Unlock()
				}
				callRefused(e, "Take")
			}})
			overloaded := strings.Contains(res.Again, "went unscheduled") // which lets any failure run again
			if res.Outcome != test.want || (res.Again != "") != test.again && !overloaded {
				t.Errorf("%s, again: %q, %v: want %s, again: %v", res.Outcome, res.Again, res.Messages, test.want, test.again)
			}
		})
	}
}

// slow is a store that takes its time.
type slow struct{ wholeStore }

func (slow) wait(ctx context.Context) error {
	select {
	case <-time.After(refusalLease / 4):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slow) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := s.wait(ctx); err != nil {
		return driver.Grant{}, err
	}
	return s.wholeStore.TryLock(ctx, key, r)
}

func (s slow) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	if err := s.wait(ctx); err != nil {
		return driver.Holder{}, err
	}
	return s.wholeStore.Inspect(ctx, key)
}

func (s slow) Break(ctx context.Context, key, id string) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.wholeStore.Break(ctx, key, id)
}

// On a slow store a round of calls takes most of a lease. Refused is a renewal, not all that fall due within the round.
func TestRefusedRenewalOnASlowStore(t *testing.T) {
	t.Parallel()
	shared := memory.NewStore()
	h := Harness{Claims: memory.Claims, Open: func(TB) driver.Backend { return slow{shared.Open().(wholeStore)} }}
	if res := outcome(t, h, Case{run: func(e *env) { callRefused(e, "Renew") }}); res.Outcome != Pass {
		t.Errorf("%s: %v, want pass", res.Outcome, res.Messages)
	}
}
