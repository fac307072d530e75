package etcd

import (
	"context"
	"sync"

	"github.com/coordgo/coord/driver"
)

// ctxMutex is a mutex whose lock waits no longer than a context lasts. Its zero value is unlocked.
//
// It guards requests that serve all who want them, and each of these gives up a silent server after answerWithin. So
// nobody waits for long behind a member that hangs.
type ctxMutex struct {
	init sync.Once
	held chan struct{}
}

func (m *ctxMutex) lock(ctx context.Context) (unlock func(), err error) {
	m.init.Do(func() { m.held = make(chan struct{}, 1) })
	unlock = func() { <-m.held }
	select {
	case m.held <- struct{}{}:
		return unlock, nil
	default:
	}
	select {
	case m.held <- struct{}{}:
		return unlock, nil
	case <-ctx.Done():
		return nil, driver.NotSent(ended(ctx))
	}
}
