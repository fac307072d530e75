package postgres

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// A hold whose lease has ended is not granted again to its id while another waits: nobody would know of it.
func TestEndedHoldIsNotGrantedBeforeWaiters(t *testing.T) {
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	a, waiter := request("a", time.Hour), request("waiter", time.Hour)
	first := mustTry(t, b, "k", a)
	mustQueue(t, b, "k", waiter)
	admin(t, superuser(t, srv.Addr), "UPDATE coord.locks SET until = clock_timestamp()") // the lease of a is over
	a.TTL = time.Minute
	g, err := b.Lock(t.Context(), "k", a, func() {}) // the waiter does not ask again, so that its place ends
	if err != nil || g.Token <= first.Token {
		t.Fatalf("the id again: %+v, %v: want a token above %d", g, err, first.Token)
	}
	if h, err := b.Inspect(t.Context(), "k"); err != nil || h.ID != a.ID || int64(h.Token) != g.Token {
		t.Errorf("Inspect: %+v, %v: want the hold that was granted", h, err)
	}
}

// A lease that ends while its renewal waits for the row is not renewed.
func TestRenewalThatComesTooLate(t *testing.T) {
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	r := request("a", 300*time.Millisecond)
	mustTry(t, b, "k", r)
	release := rowLock(t, srv.Addr, "k")
	renewed := make(chan error, 1)
	go func() {
		r.TTL = time.Minute
		_, err := b.Renew(t.Context(), "k", r)
		renewed <- err
	}()
	for {
		if _, err := b.Inspect(t.Context(), "k"); errors.Is(err, driver.ErrNotHeld) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	release()
	err := <-renewed
	if errors.Is(err, context.DeadlineExceeded) { // the lease took longer to end than a call has time
		err = answered(func() error { _, err := b.Renew(t.Context(), "k", r); return err })
	}
	if !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("renewal of a lease that has ended: %v, want ErrNotHeld", err)
	}
}

// A permit whose request arrives after its Unlock is given back.
func TestSharedRequestThatComesLate(t *testing.T) {
	b := open(t, patientURL(t, server(t).Addr))
	share := driver.Share{Mode: driver.Permits, Weight: 1, Of: 5}
	other, late := request("other", time.Hour), request("late", time.Hour)
	other.Share, late.Share = share, share
	must[driver.Grant](t)(b.Shared().TryLock(t.Context(), "k", other))
	tx := must[pgx.Tx](t)(b.pool.Begin(t.Context()))
	must[pgconn.CommandTag](t)(tx.Exec(t.Context(), "SELECT FROM coord.shares WHERE key = $1 FOR UPDATE", []byte("k")))
	ctx, cancel := context.WithCancel(t.Context())
	tried, unlocked := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := b.Shared().TryLock(ctx, "k", late)
		tried <- err
	}()
	untilBlocked(t, b, 1) // its request waits for the row
	cancel()
	if err := <-tried; err == nil || driver.Definite(err) {
		t.Fatalf("TryLock that was cancelled on its way: %v", err)
	}
	go func() { unlocked <- b.Shared().Unlock(t.Context(), "k", late.ID) }()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-unlocked; err != nil && !errors.Is(err, driver.ErrNotHeld) {
		t.Error(err)
	}
	if holders, err := b.Shared().Holders(t.Context(), "k"); err != nil || len(holders) != 1 {
		t.Errorf("holders: %+v, %v: want the other one", holders, err)
	}
}

// An Unlock waits for the row behind a request of its own id, which is then granted: it sees the hold.
func TestUnlockBehindItsRequest(t *testing.T) {
	t.Parallel()
	srv := server(t)
	one, two := open(t, patientURL(t, srv.Addr)), open(t, patientURL(t, srv.Addr))
	before, r := request("a", time.Hour), request("b", time.Hour)
	mustTry(t, one, "k", before)
	if err := one.Unlock(t.Context(), "k", before.ID); err != nil {
		t.Fatal(err)
	}
	release := rowLock(t, srv.Addr, "k")
	tried, unlocked := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := one.TryLock(t.Context(), "k", r)
		tried <- err
	}()
	untilBlocked(t, one, 1)
	go func() { unlocked <- two.Unlock(t.Context(), "k", r.ID) }()
	untilBlocked(t, one, 2)
	release()
	if err := <-tried; err != nil {
		t.Fatal(err)
	}
	if err := <-unlocked; err != nil {
		t.Errorf("Unlock of a hold that was granted meanwhile: %v", err)
	}
	if h, err := one.Inspect(t.Context(), "k"); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("after the Unlock: %+v, %v", h, err)
	}
}

// A fence within a savepoint is refused, because a rollback to that would take it away.
func TestFenceWithinASavepoint(t *testing.T) {
	b := open(t, patientURL(t, server(t).Addr))
	tx := must[pgx.Tx](t)(b.pool.Begin(t.Context()))
	defer func() { _ = tx.Rollback(context.Background()) }()
	inner := must[pgx.Tx](t)(tx.Begin(t.Context()))
	if err := Fence(t.Context(), inner, "k", 33); err == nil || errors.Is(err, coord.ErrLost) {
		t.Errorf("a fence within a savepoint: %v, want a refusal that is not ErrLost", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx = must[pgx.Tx](t)(b.pool.Begin(t.Context()))
	for range 2 {
		if err := Fence(t.Context(), tx, "k", 33); err != nil {
			t.Errorf("a fence in the transaction itself: %v", err)
		}
	}
}

// deadlined notes the deadline of a connection.
type deadlined struct {
	net.Conn
	at time.Time
}

func (d *deadlined) SetDeadline(t time.Time) error {
	d.at = t
	return nil
}

// pgx takes leave of a connection for 15 s. Its place in the pool is free earlier.
func TestLeaveIsShort(t *testing.T) {
	d := &deadlined{}
	c := &connection{Conn: d, of: newConnections(), made: func() {}}
	for name, test := range map[string]struct{ ask, most time.Duration }{
		"leave": {15 * time.Second, leaveWithin}, "past": {-time.Second, -time.Second},
	} {
		if err := c.SetDeadline(time.Now().Add(test.ask)); err != nil || d.at.After(time.Now().Add(test.most)) {
			t.Errorf("%s: deadline in %v, %v: want at most %v", name, time.Until(d.at), err, test.most)
		}
	}
}

// A renewal by itself waits for its row while it may: a transaction that has the row for a while, again and again, loses no
// lease.
func TestSingleRenewalWaitsForItsRow(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	r := request("a", time.Hour)
	mustTry(t, b, "k", r)
	err := answered(func() error { // again if the machine took all the time that a call has
		release := rowLock(t, srv.Addr, "k")
		renewed := make(chan error, 1)
		go func() {
			_, err := b.Renew(t.Context(), "k", r)
			renewed <- err
		}()
		select {
		case err := <-renewed:
			release()
			return err
		case <-time.After(3 * waitAtMost): // longer than beside other renewals
		}
		release()
		return <-renewed
	})
	if err != nil {
		t.Errorf("renewal of a hold whose row was locked for a while: %v", err)
	}
}
