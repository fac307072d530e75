package zookeeper

import (
	"context"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// Close lets what was sent be answered before it ends the connection: the library reads an answer while it gives the
// request up, which the race detector sees.
func TestCloseAmidRequests(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	for i := range 40 {
		b := connect(t, urlWith(t, srv.Addr, calmSession))
		r := request("a", time.Minute)
		key := newID("k")
		must[driver.Grant](t)(b.TryLock(t.Context(), key, r))
		if err := b.Unlock(t.Context(), key, r.ID); err != nil {
			t.Fatal(err)
		}
		b.calls.Go(func() { _ = b.Ping(context.Background()) }) // fails when Close comes first
		time.Sleep(time.Duration(i) * 100 * time.Microsecond)   // at each of its requests
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Close leaves no timer behind for a hold that ends with the session.
func TestCloseStopsTheTimersOfHolds(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	r := request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	e := b.enter(holdName{key: "k", id: r.ID})
	defer e.leave()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if e.timer.Stop() {
		t.Error("its timer runs on")
	}
}
