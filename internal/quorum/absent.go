package quorum

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// absent is a member that was not there when the quorum was opened. Calls open it, one a second.
type absent struct {
	info driver.Info
	open func(context.Context) (driver.Backend, error)

	mu     sync.Mutex
	store  store // nil: it is absent
	why    error
	next   time.Time // when a call tries again
	closed bool
}

// Absent makes a member that open opens when it can be reached. info is that of a member of its kind, which is there;
// why is the error that it is not.
func Absent(info driver.Info, why error, open func(context.Context) (driver.Backend, error)) driver.Backend {
	info.Server = ""
	return &absent{info: info, open: open, why: why, next: time.Now().Add(callBound)}
}

func (a *absent) get(ctx context.Context) (store, error) {
	a.mu.Lock()
	switch {
	case a.closed:
		a.mu.Unlock()
		return nil, driver.ErrClosed
	case a.store != nil || time.Now().Before(a.next):
		defer a.mu.Unlock()
		if a.store == nil {
			return nil, fmt.Errorf("%w: %v", driver.ErrNotSent, a.why)
		}
		return a.store, nil
	}
	a.next = time.Now().Add(callBound)
	a.mu.Unlock()
	b, err := a.open(ctx)
	var s store
	if err == nil {
		if s, err = usable(b); err == nil && len(b.Info().Claims.Missing(a.info.Claims...)) > 0 {
			err = fmt.Errorf("it claims less than the others: %v", b.Info().Claims.Missing(a.info.Claims...))
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.store != nil { // another call was faster
		if b != nil {
			_ = b.Close()
		}
		return a.store, nil
	}
	if err == nil && a.closed {
		err = driver.ErrClosed
	}
	if err != nil {
		if a.why = err; b != nil {
			_ = b.Close() // it was not used
		}
		return nil, fmt.Errorf("%w: %v", driver.ErrNotSent, err)
	}
	a.store = s
	return s, nil
}

func (a *absent) Info() driver.Info { return a.info }

func (a *absent) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if a.store == nil {
		return nil
	}
	return a.store.Close()
}

func (a *absent) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	s, err := a.get(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	return s.TryLock(ctx, key, r)
}

func (a *absent) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	s, err := a.get(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	return s.Renew(ctx, key, r)
}

// RenewAll renews in one batch where the store can.
func (a *absent) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	s, err := a.get(ctx)
	if err == nil {
		return renewAll(ctx, s, holds)
	}
	out := make([]driver.Renewal, len(holds))
	for i := range out {
		out[i].Err = err
	}
	return out
}

func (a *absent) Unlock(ctx context.Context, key, id string) error {
	s, err := a.get(ctx)
	if err != nil {
		return err
	}
	return s.Unlock(ctx, key, id)
}

func (a *absent) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	s, err := a.get(ctx)
	if err != nil {
		return err
	}
	return s.UnlockAfter(ctx, key, id, d)
}

func (a *absent) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	s, err := a.get(ctx)
	if err != nil {
		return driver.Holder{}, err
	}
	return s.Inspect(ctx, key)
}

func (a *absent) Break(ctx context.Context, key, id string) error {
	s, err := a.get(ctx)
	if err != nil {
		return err
	}
	return s.Break(ctx, key, id)
}

func (a *absent) Ping(ctx context.Context) error {
	s, err := a.get(ctx)
	if err != nil {
		return err
	}
	return s.Ping(ctx)
}

func (a *absent) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s, err := a.get(ctx)
		l, ok := s.(driver.Lister)
		if err == nil && !ok {
			err = driver.ErrUnsupported
		}
		if err != nil {
			yield("", err)
			return
		}
		l.List(ctx, prefix)(yield)
	}
}

// Check says that the member is not there.
func (a *absent) Check(ctx context.Context) ([]driver.Finding, error) {
	s, err := a.get(ctx)
	if err != nil {
		return nil, err
	}
	if c, ok := s.(driver.Checker); ok {
		return c.Check(ctx)
	}
	return nil, nil
}
