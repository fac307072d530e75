package etcd

import (
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// logins has the requests of a client fail without being sent for a while after its user or password was refused. The client
// library would log in for each of them, and to check a password takes the server a tenth of a second or so.
type logins struct {
	mu      sync.Mutex
	refusal error     // the last one; nil: the last login was good
	until   time.Time // when the next request may log in
}

// loginPause is the time from a login that was refused to the next.
const loginPause = 2 * time.Second

// pass makes a call, unless a login was refused a short while ago.
func (l *logins) pass(call func() error) error {
	err := l.refused()
	if err == nil {
		err = call()
		l.note(err)
	}
	return err
}

// refused gives the refusal if a request is not to be sent. Of those that come after the pause one is sent.
func (l *logins) refused() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.refusal != nil && now.Before(l.until) {
		return l.refusal
	}
	l.until = now.Add(loginPause)
	return nil
}

// note takes in what became of a request. That the server could not be reached says nothing of a login.
func (l *logins) note(err error) {
	refused := errors.Is(rpctypes.Error(err), rpctypes.ErrAuthFailed)
	if err != nil && !refused {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refusal = err; refused {
		l.until = time.Now().Add(loginPause)
	}
}
