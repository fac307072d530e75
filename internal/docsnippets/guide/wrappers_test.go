package guide

import (
	"context"
	"errors"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/coordtest"
)

// What the wrappers on the page wrap runs under its lock, and with its permit.
func TestShipping(t *testing.T) {
	client := coordtest.New(t)
	shipped, printed := 0, 0
	taken := func(o Order) {
		if _, err := client.TryLock(context.Background(), coord.Key("order", o.ID)); !errors.Is(err, coord.ErrLocked) {
			t.Errorf("the order is free: %v", err)
		}
	}
	s := newShipping(client.Client, &ordersDB{
		shipped: func(o Order) { taken(o); shipped++ },
		printed: func(o Order) { taken(o); printed++ },
	})
	if r, err := s.Ship(t.Context(), Order{"7"}); err != nil || r.Order != "7" || r.Token == 0 {
		t.Errorf("Ship = %+v, %v", r, err)
	}
	if r, err := client.Peek(t.Context(), "carrier", coord.PerMinute(2000)); err != nil || r.Remaining != 1999 {
		t.Errorf("after one call of the carrier: %+v, %v", r, err)
	}
	if _, err := s.Print(t.Context(), Order{"7"}); err != nil || shipped != 1 || printed != 1 {
		t.Errorf("Print: %v; shipped %d, printed %d", err, shipped, printed)
	}
	lock, err := client.Lock(t.Context(), "order/7")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Print(t.Context(), Order{"7"}); !errors.Is(err, coord.ErrLocked) || printed != 1 {
		t.Errorf("Print of an order that is worked on: %v", err)
	}
	if err := lock.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}
