package coordtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// Cut makes the store unreachable for this Client, until Heal: each call fails at once, as on a host that
// refuses connections, and so do calls that wait at the store. The errors of the client match
// [coord.ErrUnavailable], its failure policy decides on limits, and a lock that it holds is lost when its TTL has
// passed. Other Clients of the same store still reach it. For a store that hangs, use Delay.
func (c *Client) Cut() { c.lossy.faults.cut() }

// Heal ends Cut and Delay, for calls from then on. New does it too when the test ends, before it closes the Client.
func (c *Client) Heal() { c.lossy.faults.heal() }

// Delay makes each call of this Client from then on reach the store d later. A call whose context ends before that
// fails and is not applied. 0 ends it. A d above the time-outs of a test is a store that hangs. In a bubble of
// testing/synctest it takes no time.
func (c *Client) Delay(d time.Duration) { c.lossy.faults.slow(d) }

var (
	// errCut is the error of calls while the store is cut off.
	errCut = fmt.Errorf("%w: coordtest: the test has cut the store off", driver.ErrNotSent)
	// errCutWaiting is that of a call that waited at the store then: its place in the queue may remain.
	errCutWaiting = errors.New("coordtest: the test has cut the store off")
)

// faults stands between a client and its store.
type faults struct {
	driver.Backend
	mu     sync.Mutex
	reach  context.Context // ends with Cut
	sever  context.CancelFunc
	delays time.Duration
}

func newFaults(store driver.Backend) *faults {
	f := &faults{Backend: store}
	f.heal()
	return f
}

func (f *faults) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sever()
}

func (f *faults) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reach == nil || f.reach.Err() != nil {
		f.reach, f.sever = context.WithCancel(context.Background())
	}
	f.delays = 0
}

func (f *faults) slow(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delays = d
}

// arrive is the way of a call to the store. The context that it returns ends with the next Cut.
func (f *faults) arrive(ctx context.Context) (reach context.Context, err error) {
	f.mu.Lock()
	reach, delay := f.reach, f.delays
	f.mu.Unlock()
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-reach.Done():
		case <-ctx.Done():
			return nil, driver.NotSent(ctx.Err())
		}
	}
	if reach.Err() != nil {
		return nil, errCut
	}
	return reach, nil
}

// through makes a call that does not wait at the store.
func through[T any](ctx context.Context, f *faults, call func() (T, error)) (none T, err error) {
	if _, err := f.arrive(ctx); err != nil {
		return none, err
	}
	return call()
}

// try is through for calls that give only an error.
func (f *faults) try(ctx context.Context, call func() error) error {
	if _, err := f.arrive(ctx); err != nil {
		return err
	}
	return call()
}

func (f *faults) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return through(ctx, f, func() (driver.Grant, error) { return f.Backend.TryLock(ctx, key, r) })
}

// Lock waits at the store, and no longer than the store can be reached.
func (f *faults) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	reach, err := f.arrive(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(reach, cancel)()
	g, err := f.Backend.Lock(ctx, key, r, waits)
	if err != nil && reach.Err() != nil {
		err = errCutWaiting
	}
	return g, err
}

func (f *faults) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return through(ctx, f, func() (driver.Grant, error) { return f.Backend.Renew(ctx, key, r) })
}

func (f *faults) Unlock(ctx context.Context, key, id string) error {
	return f.try(ctx, func() error { return f.Backend.Unlock(ctx, key, id) })
}

func (f *faults) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	return through(ctx, f, func() (driver.Holder, error) { return f.Backend.Inspect(ctx, key) })
}

func (f *faults) Break(ctx context.Context, key, id string) error {
	return f.try(ctx, func() error { return f.Backend.Break(ctx, key, id) })
}

func (f *faults) BreakNow(ctx context.Context, key, id string) error {
	return f.try(ctx, func() error { return f.Backend.BreakNow(ctx, key, id) })
}

func (f *faults) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if _, err := f.arrive(ctx); err != nil {
			yield("", err)
			return
		}
		f.Backend.List(ctx, prefix)(yield)
	}
}

func (f *faults) Ping(ctx context.Context) error {
	return f.try(ctx, func() error { return f.Backend.Ping(ctx) })
}

func (f *faults) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	return through(ctx, f, func() (driver.Taken, error) { return f.Backend.Take(ctx, key, l, asks) })
}

func (f *faults) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return through(ctx, f, func() (driver.TakenOne, error) { return f.Backend.TakeOne(ctx, key, l, a) })
}

func (f *faults) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	return through(ctx, f, func() ([]driver.Taken, error) { return f.Backend.TakeAll(ctx, demands) })
}

func (f *faults) Reset(ctx context.Context, key string, l driver.Limit) error {
	return f.try(ctx, func() error { return f.Backend.Reset(ctx, key, l) })
}

func (f *faults) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	return f.try(ctx, func() error { return f.Backend.Refund(ctx, key, l, id, n) })
}

func (f *faults) Charge(ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
	return through(ctx, f, func() (driver.Charged, error) { return f.Backend.Charge(ctx, key, l, n) })
}
