package coord_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

var errWrongPassword = errors.New("wrong user or password")

// offline is a store that refuses the user's password for a moment, and then does not answer.
type offline struct{ begun atomic.Pointer[time.Time] } // nil: it answers

// answer is that of a call with this ctx. served is one before.
func (o *offline) answer(ctx context.Context, served func() (driver.Grant, error)) (driver.Grant, error) {
	switch begun := o.begun.Load(); {
	case begun == nil:
		return served()
	case time.Since(*begun) < 500*time.Millisecond:
		time.Sleep(10 * time.Millisecond)
		return driver.Grant{}, driver.NotSent(errWrongPassword)
	}
	ctx, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	<-ctx.Done()
	return driver.Grant{}, ctx.Err()
}

type offlineShares struct {
	driver.SharedLocker
	*offline
}

func (s offlineShares) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return s.answer(ctx, func() (driver.Grant, error) { return s.SharedLocker.TryLock(ctx, key, r) })
}

// Whoever shares a key, and loses its place when the store begins to refuse it, is told why, and after one TTL.
func TestRefusedHeadIsToldWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 20 * time.Second
		store, o := memory.NewStore(), &offline{}
		waiter := clientOf(t, bent{
			sharingStore: polled{store.Open()},
			tryLock: func(ctx context.Context, in driver.Locker, key string, r driver.Request) (driver.Grant, error) {
				return o.answer(ctx, func() (driver.Grant, error) { return in.TryLock(ctx, key, r) })
			},
			renew: func(ctx context.Context, in driver.Locker, key string, r driver.Request) (driver.Grant, error) {
				return o.answer(ctx, func() (driver.Grant, error) { return in.Renew(ctx, key, r) })
			},
			shared: func(in driver.SharedLocker) driver.SharedLocker { return offlineShares{in, o} },
		})
		held := mustShare(t, clientOf(t, store.Open()).Semaphore(1))
		waits := make(chan error, 1)
		go func() {
			_, err := waiter.Semaphore(1).Lock(context.Background(), "k", coord.TTL(ttl))
			waits <- err
		}()
		time.Sleep(2 * time.Second) // it is the head
		began := time.Now()
		o.begun.Store(&began)
		err := <-waits
		if took := time.Since(began); took < ttl-time.Second || took > ttl+2*time.Second {
			t.Errorf("it ended after %v, want a TTL of %v", took, ttl)
		}
		if !errors.Is(err, coord.ErrUnavailable) || !strings.Contains(err.Error(), errWrongPassword.Error()) {
			t.Errorf("%v: want that the store is unavailable, and at first %q", err, errWrongPassword)
		}
		o.begun.Store(nil)
		mustUnlock(t, held)
	})
}

// unbroken is a store that shares keys, and does not claim that holds can be broken.
type unbroken struct{ driver.Backend }

func (u unbroken) Info() driver.Info {
	info := u.Backend.Info()
	info.Claims = info.Claims.Without(driver.Break)
	return info
}

// What a store does not claim is not asked of it, for shared keys as for locks.
func TestBreakOfAnUnclaimedKind(t *testing.T) {
	c := clientOf(t, unbroken{memory.NewStore().Open()})
	shared := c.Semaphore(1)
	lock, err := shared.Lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"Break": shared.Break(t.Context(), "k", "id"), "BreakNow": shared.BreakNow(t.Context(), "k", "id"), "Client.Break": c.Break(t.Context(), "k", "id"),
	} {
		if !errors.Is(err, coord.ErrUnsupported) {
			t.Errorf("%s = %v", name, err)
		}
	}
	if err := lock.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

// A hold that is another's, or has ended, is told as such.
func TestBreakOfAnotherHolder(t *testing.T) {
	c := clientOf(t, memory.NewStore().Open())
	err := c.Break(t.Context(), "k", "id")
	if !errors.Is(err, coord.ErrNotHeld) || err.Error() != `coord: break "k" on memory: not held by this holder` {
		t.Errorf("Break = %v", err)
	}
}
