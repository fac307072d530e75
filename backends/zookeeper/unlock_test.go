package zookeeper

import (
	"errors"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// throttled is a busy server's answer to a request that it does not take on.
const throttled = -127

// Unlock of an id that this client does not hold says that it is not held only where no node of it is left.
func TestUnlockTellsOfARefusal(t *testing.T) {
	t.Parallel()
	p, b := openTapped(t)
	p.answer = throttled
	holder := connect(t, urlWith(t, p.target, calmSession))
	r := request("a", time.Minute)
	must[driver.Grant](t)(holder.TryLock(t.Context(), "k", r))
	p.once(opDelete, refuse)
	if err := b.Unlock(t.Context(), "k", r.ID); !isRefusal(err) || errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Unlock that the server did not take on: %v, want that refusal", err)
	}
	if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Errorf("Unlock once more: %v", err)
	}
	isFree(t, b, "k")
}

// A node that is given up goes although the server does not take on the first request for that.
func TestDiscardAsksAgainAfterARefusal(t *testing.T) {
	t.Parallel()
	p, b := openTapped(t)
	p.answer = throttled
	r := request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	e := b.enter(holdName{key: "k", id: r.ID})
	defer e.leave()
	node, _ := e.held()
	p.once(opDelete, refuse)
	b.discard(node, b.conn.SessionID())
	if left := children(t, raw(t, p.target), b, "k"); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}
