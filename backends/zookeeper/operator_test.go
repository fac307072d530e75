package zookeeper

import (
	"errors"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// In an ensemble a waiter proves that its session lives before it is granted. One that is revoked just then
// ends, and leaves the key free.
func TestBreakOfAWaiterBeforeItsGrant(t *testing.T) {
	p, b := openTapped(t)
	beside := connect(t, urlWith(t, p.target, calmSession))
	b.alone.Store(false)
	holder, waiter := request("a", time.Minute), request("b", time.Minute)
	must[driver.Grant](t)(beside.TryLock(t.Context(), "k", holder))
	ended := queueUp(t.Context(), b, "k", waiter)
	b.mu.Lock()
	b.signs.list = nil // the last sign of life was long ago
	b.mu.Unlock()
	proof := p.once(opMulti, hold)
	if err := beside.Unlock(t.Context(), "k", holder.ID); err != nil {
		t.Fatal(err)
	}
	<-proof
	if err := beside.Break(t.Context(), "k", waiter.ID); err != nil {
		t.Fatal(err)
	}
	p.release()
	select {
	case err := <-ended:
		if !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("the waiter: %v, want ErrNotHeld", err)
		}
	case <-time.After(hung):
		t.Fatal("the waiter goes on")
	}
	isFree(t, beside, "k")
}
