package coord_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

// waitOnce runs one Wait of a client under Do, and gives what Do returned.
func waitOnce(ctx context.Context, c *coord.Client, opts ...coord.LockOption) <-chan error {
	got := make(chan error, 1)
	go func() {
		got <- coord.Do(ctx, c, "k", func(ctx context.Context) error { return c.Cond("k").Wait(ctx) }, opts...)
	}()
	synctest.Wait()
	return got
}

// underLock calls fn under the lock of "k".
func underLock(t *testing.T, c *coord.Client, fn func(context.Context) error) {
	t.Helper()
	if err := coord.Do(t.Context(), c, "k", fn); err != nil {
		t.Errorf("Do: %v", err)
	}
}

// A wait ends within one TTL, by itself.
func TestCondWaitEndsWithinTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 1)
		begin := time.Now()
		if err := <-waitOnce(t.Context(), c[0], coord.TTL(time.Minute)); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took < time.Minute/2 || took > time.Minute {
			t.Errorf("Wait returned after %v without a signal, want after most of one TTL", took)
		}
	})
}

// A wait that has ended by itself has left nothing that a later signal finds.
func TestCondSignalAfterWaitEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, done := sharers(t, 2), make(chan error)
		go func() {
			done <- coord.Do(t.Context(), c[0], "k", func(ctx context.Context) error {
				return errors.Join(c[0].Cond("k").Wait(ctx), c[0].Cond("k").Wait(ctx))
			}, coord.TTL(time.Minute))
		}()
		time.Sleep(46 * time.Second) // the second has begun
		underLock(t, c[1], c[1].Cond("k").Signal)
		begin := time.Now()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the second Wait returned %v after the signal, want at once", took)
		}
	})
}

// WaitAtMost bounds the wait for the first hold, and not for the next.
func TestCondWaitAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 2, coord.WithLockDefaults(coord.WaitAtMost(time.Second)))
		got := waitOnce(t.Context(), c[0], coord.WaitAtMost(2*time.Second), coord.MaxWaiting(1))
		underLock(t, c[1], func(ctx context.Context) error {
			err := c[1].Cond("k").Signal(ctx)
			time.Sleep(5 * time.Second)
			return err
		})
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

// A waiter whose place an operator has broken wakes, and takes no signal.
func TestCondBrokenPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		c, err := coord.New(store.Open())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		operator := store.Open()
		defer operator.Close()
		places := operator.Shared()
		first, second := waitOnce(t.Context(), c), waitOnce(t.Context(), c)
		all, err := places.Holders(t.Context(), "k\x00c")
		if err != nil || len(all) != 2 {
			t.Fatalf("%d places, %v: want 2", len(all), err)
		}
		if err := places.Break(t.Context(), "k\x00c", all[0].ID); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := <-first; err != nil {
			t.Error(err)
		}
		underLock(t, c, c.Cond("k").Signal)
		if err := <-second; err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// leaving is a store where the first waiter that is to be signalled has just left.
type leaving struct {
	sharingStore
	once *sync.Once
}

type sharingStore = driver.Backend

// polled is a store without a queue.
type polled struct{ driver.Backend }

func (p polled) Info() driver.Info {
	info := p.Backend.Info()
	info.Claims = info.Claims.Without(driver.Fair).Without(driver.Wake)
	return info
}

func (l leaving) Shared() driver.SharedLocker { return leavingLocker{l.sharingStore.Shared(), l.once} }

type leavingLocker struct {
	driver.SharedLocker
	once *sync.Once
}

func (l leavingLocker) Unlock(ctx context.Context, key, id string) (err error) {
	l.once.Do(func() { err = l.SharedLocker.Unlock(ctx, key, id) })
	return errors.Join(err, l.SharedLocker.Unlock(ctx, key, id))
}

// Signal does not stop at a waiter that has left between its read and its request.
func TestCondSignalPassesOverWhoHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		waiters := clientOf(t, store.Open())
		var once sync.Once
		signaller := clientOf(t, leaving{polled{store.Open()}, &once})
		_, second := waitOnce(t.Context(), waiters), waitOnce(t.Context(), waiters)
		begin := time.Now()
		underLock(t, signaller, signaller.Cond("k").Signal)
		if err := <-second; err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the second was woken after %v, want at once", took)
		}
	})
}

// A lock that is lost before a wait is lost, and nobody waits.
func TestCondWaitOfLostLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 1)
		err := coord.Do(t.Context(), c[0], "k", func(ctx context.Context) error {
			time.Sleep(2 * time.Minute)
			return c[0].Cond("k").Wait(context.WithoutCancel(ctx))
		}, coord.MaxHold(time.Minute))
		if !errors.Is(err, coord.ErrLost) {
			t.Errorf("Do: %v, want ErrLost", err)
		}
	})
}

// A Wait that finds that the lock was broken is a loss of it, also for Do.
func TestCondWaitOfBrokenLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 2)
		err := coord.Do(t.Context(), c[0], "k", func(ctx context.Context) error {
			h, err := c[1].Inspect(ctx, "k")
			if err != nil {
				return err
			}
			if err := c[1].BreakNow(ctx, "k", h.ID); err != nil {
				return err
			}
			if err := c[0].Cond("k").Wait(ctx); !errors.Is(err, coord.ErrLost) {
				t.Errorf("Wait: %v, want ErrLost", err)
			}
			return nil // Do tells all the same
		})
		if !errors.Is(err, coord.ErrLost) {
			t.Errorf("Do: %v, want ErrLost", err)
		}
	})
}

// MaxHold counts again for the new hold, whose loss ends the context as any does.
func TestCondLossAfterWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 1)
		err := coord.Do(t.Context(), c[0], "k", func(ctx context.Context) error {
			if err := c[0].Cond("k").Wait(ctx); err != nil {
				return err
			}
			begin := time.Now()
			<-ctx.Done()
			if took := time.Since(begin); took != 2*time.Minute {
				t.Errorf("the new hold lasted %v, want 2m", took)
			}
			return context.Cause(ctx)
		}, coord.MaxHold(2*time.Minute))
		if !errors.Is(err, coord.ErrMaxHold) {
			t.Errorf("Do: %v, want ErrMaxHold", err)
		}
	})
}

// Close and Shutdown end waits.
func TestCondClose(t *testing.T) {
	for name, end := range map[string]func(*coord.Client) error{
		"Close":    (*coord.Client).Close,
		"Shutdown": func(c *coord.Client) error { return c.Shutdown(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := sharers(t, 2)
				got := waitOnce(t.Context(), c[0])
				begin := time.Now()
				if err := end(c[0]); err != nil {
					t.Error(err)
				}
				if err := <-got; !errors.Is(err, coord.ErrClosed) {
					t.Errorf("Do: %v, want ErrClosed", err)
				}
				if took := time.Since(begin); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
				underLock(t, c[1], c[1].Cond("k").Broadcast)
			})
		})
	}
}

// A Do whose function returns while another goroutine waits in its context leaves no lock behind.
func TestCondOutlivesDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 2)
		got := make(chan error, 1)
		err := coord.Do(t.Context(), c[0], "k", func(ctx context.Context) error {
			go func() { got <- c[0].Cond("k").Wait(ctx) }()
			synctest.Wait()
			if _, held := coord.Held(ctx, "k"); held {
				t.Error("Held during a Wait: want false")
			}
			if err := c[0].Cond("k").Wait(ctx); !errors.Is(err, coord.ErrNotHeld) || ctx.Err() != nil {
				t.Errorf("a second Wait: %v, and of the context %v: want ErrNotHeld, and no effect on the first", err, ctx.Err())
			}
			return nil
		})
		if !errors.Is(err, coord.ErrNotHeld) {
			t.Errorf("Do: %v, want ErrNotHeld", err)
		}
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("Wait: %v, want Canceled", err)
		}
		mustUnlock(t, mustShare(t, c[1]))
	})
}
