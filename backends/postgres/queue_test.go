package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// A waiter is notified, and does not find out by asking every second.
func TestWaiterIsNotified(t *testing.T) {
	t.Parallel()
	srv := server(t)
	one, two := open(t, patientURL(srv.Addr)), open(t, patientURL(srv.Addr))
	for awaitListener(t, two, "warm up"); ; {
		holder, waiter := request("a", time.Hour), request("b", time.Hour)
		mustTry(t, one, "k", holder)
		granted := make(chan error, 1)
		go func() {
			_, err := two.Lock(t.Context(), "k", waiter)
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

// awaitListener waits until b hears notifications.
func awaitListener(t *testing.T, b *backend, key string) {
	t.Helper()
	r := request("a", time.Hour)
	if _, err := b.Lock(t.Context(), key, r); err != nil {
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
	srv := server(t)
	b := open(t, patientURL(srv.Addr))
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

// A newcomer does not overtake a waiter of a key that is free, and one who has left is in nobody's way.
func TestPlaces(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(srv.Addr))
	holder, first, second := request("a", time.Hour), request("b", time.Hour), request("c", time.Hour)
	mustTry(t, b, "k", holder)
	if _, err := b.ask(t.Context(), "k", first, true); !errors.Is(err, driver.ErrLocked) {
		t.Fatalf("ask: %v", err)
	}
	if err := b.Unlock(t.Context(), "k", holder.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.TryLock(t.Context(), "k", second); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("TryLock before the first in the queue: %v, want ErrLocked", err)
	}
	if err := b.Unlock(t.Context(), "k", first.ID); err != nil {
		t.Errorf("withdraw: %v", err)
	}
	if err := b.Unlock(t.Context(), "k", first.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("withdraw again: %v, want ErrNotHeld", err)
	}
	mustTry(t, b, "k", second)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Lock(ctx, "k", first); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("Lock under a ctx that has ended: %v, want ErrNotSent", err)
	}
}
