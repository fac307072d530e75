package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// A waiter is notified, and does not find out by asking every second.
func TestWaiterIsNotified(t *testing.T) {
	t.Parallel()
	srv := server(t)
	one, two := open(t, patientURL(t, srv.Addr)), open(t, patientURL(t, srv.Addr))
	for awaitListener(t, two, "warm up"); ; {
		holder, waiter := request("a", time.Hour), request("b", time.Hour)
		mustTry(t, one, "k", holder)
		granted := make(chan error, 1)
		go func() {
			_, err := two.Lock(t.Context(), "k", waiter, func() {})
			granted <- err
		}()
		for h := (driver.Holder{}); h.Waiters != 1; {
			var err error
			if h, err = one.Inspect(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		if err := one.Unlock(t.Context(), "k", holder.ID); err != nil {
			t.Fatal(err)
		}
		if err := <-granted; err != nil {
			t.Fatal(err)
		}
		if err := two.Unlock(t.Context(), "k", waiter.ID); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < maxPlace/12 {
			return // on a busy machine it may take several rounds
		}
	}
}

// The first in the queue is told that the lease in its way ends sooner, as that of a hold with MinHold does.
func TestShorterLeaseIsTold(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	conn := must[*pgx.Conn](t)(pgx.Connect(t.Context(), urlOf(t, appUser, srv.Addr)))
	defer conn.Close(context.WithoutCancel(t.Context()))
	holder, waiter := request("a", time.Hour), request("b", time.Hour)
	mustTry(t, b, "k", holder)
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	left := make(chan error, 1)
	go func() {
		_, err := b.Lock(ctx, "k", waiter, func() {})
		left <- err
	}()
	for h := (driver.Holder{}); h.Waiters != 1; {
		h = must[driver.Holder](t)(b.Inspect(t.Context(), "k"))
	}
	must[pgconn.CommandTag](t)(conn.Exec(t.Context(), "LISTEN "+b.channel))
	if err := b.UnlockAfter(t.Context(), "k", holder.ID, time.Minute); err != nil {
		t.Fatal(err)
	}
	for told := ""; !strings.HasSuffix(told, " "+waiter.ID); { // the listener of b proves itself in the same channel
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			t.Fatalf("the waiter was not told: %v", err)
		}
		told = n.Payload
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// awaitListener waits until b hears notifications.
func awaitListener(t *testing.T, b *backend, key string) {
	t.Helper()
	r := request("a", time.Hour)
	if _, err := b.Lock(t.Context(), key, r, func() {}); err != nil {
		t.Fatal(err)
	}
	if err := b.Unlock(t.Context(), key, r.ID); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); !b.listener.isUp(); {
		if time.Since(start) > hung {
			t.Fatal("no notification reaches the client")
		}
		time.Sleep(time.Millisecond)
	}
}

// Waiters whose connection for notifications breaks go on, and hear again after it.
func TestListenerConnectsAgain(t *testing.T) {
	t.Parallel()
	srv := ownServer(t)
	b := open(t, patientURL(t, srv.Addr))
	awaitListener(t, b, "k")
	srv.Kill()
	for start := time.Now(); b.listener.isUp(); {
		if time.Since(start) > hung {
			t.Fatal("the listener does not see that its connection is gone")
		}
		time.Sleep(time.Millisecond)
	}
	srv.Restart()
	awaitListener(t, b, "k")
}

// Of several that leave the queue of a free key at the same time, the last one notifies whoever is left.
func TestLastToLeaveNotifiesTheNext(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	holder := request("holder", time.Hour)
	mustTry(t, b, "k", holder)
	queue := []driver.Request{request("a", time.Hour), request("b", time.Hour), request("c", time.Hour)}
	for _, r := range queue {
		if _, err := b.ask(t.Context(), "k", r, true); !errors.Is(err, driver.ErrLocked) {
			t.Fatalf("a place in the queue: %v, want ErrLocked", err)
		}
	}
	admin(t, superuser(t, srv.Addr), "UPDATE coord.waiters SET until = until + interval '1 hour'; UPDATE coord.locks SET queued = queued + interval '1 hour'")
	if err := b.Unlock(t.Context(), "k", holder.ID); err != nil {
		t.Fatal(err)
	}
	listener := must[*pgx.Conn](t)(pgx.Connect(t.Context(), urlOf(t, testserver.PostgresUser, srv.Addr)))
	defer listener.Close(context.Background())
	must[pgconn.CommandTag](t)(listener.Exec(t.Context(), "LISTEN coord_coord"))
	tx := must[pgx.Tx](t)(b.pool.Begin(t.Context()))
	must[pgconn.CommandTag](t)(tx.Exec(t.Context(), "SELECT FROM coord.waiters WHERE id <> $1 FOR UPDATE", queue[2].ID))
	left := make(chan error)
	for _, r := range queue[:2] {
		go func() { left <- b.Unlock(t.Context(), "k", r.ID) }()
	}
	untilBlocked(t, b, 2)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-left; err != nil {
			t.Error(err)
		}
	}
	must[pgconn.CommandTag](t)(b.pool.Exec(t.Context(), "NOTIFY coord_coord, 'end'"))
	last := ""
	for {
		n := must[*pgconn.Notification](t)(listener.WaitForNotification(t.Context()))
		if n.Payload == "end" {
			break
		}
		last = n.Payload
	}
	if want := keyHash("k") + " " + queue[2].ID; last != want {
		t.Errorf("the last notification is %q, want %q", last, want)
	}
}
