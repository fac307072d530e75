package quorum

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// absent is a member that was not there when the quorum was opened. Calls open it, one a second.
type absent struct {
	driver.Unimplemented // it is opened before it is called

	info driver.Info
	open func(context.Context) (driver.Backend, error)

	mu     sync.Mutex
	store  driver.Backend // nil: it is absent
	why    error
	next   time.Time // when a call tries again
	closed bool
}

// Absent makes a member that open opens when it can be reached. info is that of a member of its kind, which is there;
// why is the error that it is not.
func Absent(info driver.Info, why error, open func(context.Context) (driver.Backend, error)) driver.Backend {
	info.Server = ""
	info.Claims = slices.DeleteFunc(slices.Clone(info.Claims), func(c driver.Claim) bool {
		return !slices.Contains(lasting, c) // no more is asked of a member that is there, but what usable asks of all
	})
	return &absent{info: info, open: open, why: why, next: time.Now().Add(callBound)}
}

// get opens the member, unless it is open.
func (a *absent) get(ctx context.Context) (driver.Backend, error) {
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
	if err == nil {
		if err = usable(b); err == nil && len(b.Info().Claims.Missing(a.info.Claims...)) > 0 {
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
	a.store = b
	return b, nil
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
