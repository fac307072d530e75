package guide

import (
	"context"
	"time"

	"github.com/coordgo/coord"
)

// Shipping is a service whose methods run under locks and limits.
type Shipping struct {
	Ship  func(ctx context.Context, order Order) (Receipt, error)
	Print func(ctx context.Context, order Order) (struct{}, error)
}

// newShipping declares in one place what is locked and what is limited.
func newShipping(client *coord.Client, db *ordersDB) *Shipping {
	byOrder := func(o Order) string { return coord.Key("order", o.ID) }
	carrier := func(Order) string { return "carrier" }

	ship := coord.LimitedWait(client, carrier, coord.PerMinute(2000), 10*time.Second, db.ship)
	return &Shipping{
		Ship:  coord.Locked(client, byOrder, ship, coord.TTL(20*time.Second), coord.WaitAtMost(time.Minute), coord.MaxHold(5*time.Minute)),
		Print: coord.TryLocked(client, byOrder, coord.NoResult(db.printLabel)),
	}
}

// ship runs under the lock of its order, with a permit of the carrier.
func (db *ordersDB) ship(ctx context.Context, o Order) (Receipt, error) {
	lock, _ := coord.Held(ctx, coord.Key("order", o.ID))
	return db.markShipped(ctx, o, lock.Token()) // ctx ends if the lock is lost, or after five minutes
}

// Order is what is shipped.
type Order struct{ ID string }

// Receipt is what the carrier gives for it.
type Receipt struct {
	Order string
	Token coord.Token
}

// ordersDB stands for the application's database.
type ordersDB struct {
	shipped func(Order)
	printed func(Order)
}

func (db *ordersDB) markShipped(ctx context.Context, o Order, token coord.Token) (Receipt, error) {
	db.shipped(o)
	return Receipt{o.ID, token}, ctx.Err()
}

func (db *ordersDB) printLabel(ctx context.Context, o Order) error {
	db.printed(o)
	return ctx.Err()
}
