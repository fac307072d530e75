package zookeeper

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// A server that resumes a session may grant it less time than before, because it is configured
// otherwise. Holds that were promised more are over before a rival is granted.
func TestSessionResumedForLess(t *testing.T) {
	t.Parallel()
	const before, after = time.Minute, 30 * time.Second
	srv := testserver.ZooKeeper(t, testserver.Durable())
	p := newTap(t, srv.Addr)
	b := connect(t, urlWith(t, p.addr(), before))
	c := must[*coord.Client](t)(coord.New(b))
	var told atomic.Int32
	tell := b.lost
	b.NotifyLost(func(key, id string, cause error) { told.Add(1); tell(key, id, cause) })
	l := must[*coord.Lock](t)(c.Lock(t.Context(), "k"))
	waits := must[*coord.Lock](t)(c.Lock(t.Context(), "free"))
	session := b.conn.SessionID()
	srv.Reconfigure(fmt.Sprintf("maxSessionTimeout=%d", after.Milliseconds()))
	srv.Restart()
	eventually(t, "the session to be resumed", func() bool { return b.timeout() == after && b.Ping(t.Context()) == nil })
	if now := b.conn.SessionID(); now != session {
		t.Fatalf("session %x became %x", session, now)
	}
	if err := waits.Err(); !errors.Is(err, coord.ErrLost) {
		t.Errorf("a hold that was promised %v: %v", before, err)
	}
	// The session goes on, and what it holds from now on has the new lease.
	r := request("next", time.Minute)
	if g := must[driver.Grant](t)(b.TryLock(t.Context(), "other", r)); g.TTL != after {
		t.Errorf("a lease of %v, want %v", g.TTL, after)
	}
	isFree(t, connect(t, urlWith(t, srv.Addr, calmSession)), "free") // a lost hold's node does not stay with the session
	if n := told.Load(); n != 2 {
		t.Errorf("%d losses told of 2 holds", n)
	}
	if err := b.Unlock(t.Context(), "other", r.ID); err != nil {
		t.Error(err)
	}
	p.disturb(func(int32) deed { return hold }) // the client is heard of no more
	must[driver.Grant](t)(connect(t, urlWith(t, srv.Addr, calmSession)).Lock(t.Context(), "k", request("rival", time.Minute), func() {}))
	if l.Err() == nil {
		t.Errorf("a rival was granted %v before the deadline of the holder", time.Until(l.Deadline()))
	}
	p.disturb(nil)
	p.release()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
