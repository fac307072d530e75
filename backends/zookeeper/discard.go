package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// discard removes a node of a session of ours, which blocks its queue until then: it asks until the server has
// answered, or the session is another. What a busy server did not take on, it asks again. Where the user may not, it
// asks on for as long as the backend is open: rights come back.
func (b *backend) discard(node string, session int64) {
	most := 100 * time.Millisecond
	for pause := time.Millisecond; ; pause = min(2*pause, most) {
		if b.conn.State() == zk.StateHasSession {
			if b.conn.SessionID() != session {
				return
			}
			err := b.remove(node)
			denied := errors.Is(err, zk.ErrNoAuth) && !b.calls.Closed()
			if answered(err) && !isRefusal(err) && !denied {
				return
			}
			if denied {
				most = time.Second
			}
		}
		if !b.sleep(pause) {
			return
		}
	}
}

func (b *backend) discardAll(nodes []string, session int64) {
	for _, n := range nodes {
		b.discard(n, session)
	}
}

// sleep is false when there is no connection any more.
func (b *backend) sleep(d time.Duration) bool {
	if b.wire != nil {
		return b.calls.Pause(context.Background(), d) == nil
	}
	time.Sleep(d)
	return b.conn.State() != zk.StateDisconnected || !b.calls.Closed()
}
