// Package testwait tests what becomes of a client that waits at a store which begins to refuse it.
package testwait

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord"
)

// TTL is that of the waiter: it is to end, and has more than time-outs in it, also on a machine that is busy.
const TTL = 10 * time.Second

// hung is from when on what should happen is held not to.
const hung = time.Minute

// Take waits for the key k.
type Take func(ctx context.Context, c *coord.Client, ttl time.Duration) error

// Takes are the ways to wait.
func Takes() map[string]Take {
	by := func(locker func(*coord.Client) coord.Locker, opts ...coord.LockOption) Take {
		return func(ctx context.Context, c *coord.Client, ttl time.Duration) error {
			_, err := locker(c).Lock(ctx, "k", append(opts, coord.TTL(ttl))...)
			return err
		}
	}
	lock := func(c *coord.Client) coord.Locker { return c }
	return map[string]Take{
		"lock":   by(lock),
		"fair":   by(lock, coord.Fair()),
		"permit": by(func(c *coord.Client) coord.Locker { return c.Semaphore(1) }),
		"write":  by(func(c *coord.Client) coord.Locker { return c.ReadWrite().Write() }),
	}
}

// Refused is a waiter that the store begins to refuse.
type Refused struct {
	Holder *coord.Client // has the key until the waiter has failed, and is not refused
	Waiter *coord.Client
	Next   *coord.Client // takes the key after that, and is not refused
	// Entries counts what the store has of them: with the waiter's place it is more.
	Entries func() int
	Keeps   bool   // the store keeps the place until it is in somebody's way
	Stays   bool   // the place stays until Waiter is closed
	Refuse  func() // begins it
	Again   func() // sees to it that no connection has escaped; may be nil
	Says    string // is in the error
}

// Ends fails the test unless the wait ends with the reason, and leaves nothing that is in anybody's way.
func (r Refused) Ends(t *testing.T, take Take) {
	t.Helper()
	if err := take(t.Context(), r.Holder, time.Minute); err != nil {
		t.Fatal(err)
	}
	before, waits := r.Entries(), make(chan error, 1)
	go func() { waits <- take(context.Background(), r.Waiter, TTL) }()
	until(t, "the waiter to have a place", func() bool { return r.Entries() > before })
	r.Refuse()
	if err := r.outcome(t, waits); !errors.Is(err, coord.ErrUnavailable) || !strings.Contains(err.Error(), r.Says) {
		t.Errorf("%v: want that the store is unavailable, and %q", err, r.Says)
	}
	if r.Stays {
		r.Waiter.Close() // it may say that it could not give all back
	}
	if !r.Keeps {
		until(t, "the waiter's place to be gone", func() bool { return r.Entries() <= before })
	}
	if err := r.Holder.Close(); err != nil {
		t.Errorf("Close of the holder: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	if err := take(ctx, r.Next, time.Minute); err != nil {
		t.Errorf("who may use the server is not granted the key: %v", err)
	}
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for start := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(start) > hung {
			t.Fatalf("waited %v for %s", hung, what)
		}
	}
}

// outcome awaits the end of the wait.
func (r Refused) outcome(t *testing.T, waits <-chan error) error {
	t.Helper()
	late, tick := time.After(hung), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-waits:
			return err
		case <-tick.C:
			if r.Again != nil {
				r.Again()
			}
		case <-late:
			t.Fatalf("still waiting after %v", hung)
		}
	}
}
