package zookeeper

import (
	"errors"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// What a request without an answer made is removed, also if an operator broke it meanwhile.
func TestBrokenStrayIsRemoved(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	operator := connect(t, urlWith(t, srv.Addr, calmSession))
	r := request("a", time.Minute)
	e := must[*entry](t)(b.turn(t.Context(), holdName{key: "k", id: r.ID}))
	must[ticket](t)((&attempt{b: b, e: e, r: r}).create(b.conn.SessionID()))
	e.end()
	if err := operator.Break(t.Context(), "k", r.ID); err != nil {
		t.Fatal(err)
	}
	if err := b.Unlock(t.Context(), "k", r.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Unlock: %v, want ErrNotHeld", err)
	}
	if left := children(t, operator.conn, b, "k"); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}
