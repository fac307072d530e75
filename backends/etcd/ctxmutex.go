package etcd

import (
	"context"
	"sync"
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
	if err := take(ctx, m.held); err != nil {
		return nil, err
	}
	return func() { <-m.held }, nil
}
