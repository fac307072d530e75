package coord_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/internal/testlog"
)

func noWork(context.Context) error { return nil }

// started runs fn in a goroutine, once it is known to wait, or has ended.
func started(fn func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	synctest.Wait()
	return done
}

func wantIs(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// A parent that leaves first lets its child finish; who waits behind the child contends, and gets a hold of its own.
func TestParentLeavesBeforeItsChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, leave := newClient(t), make(chan struct{})
		var child, sibling <-chan error
		var tokens [2]coord.Token
		err := coord.Do(t.Context(), c, "k", func(ctx context.Context) error {
			ctx = context.WithoutCancel(ctx)
			child = started(func() error {
				return coord.Do(ctx, c, "k", func(ctx context.Context) error {
					l, _ := coord.Held(ctx, "k")
					tokens[0] = l.Token()
					<-leave
					return nil
				})
			})
			sibling = started(func() error {
				return coord.Do(ctx, c, "k", func(ctx context.Context) error {
					l, _ := coord.Held(ctx, "k")
					tokens[1] = l.Token()
					return nil
				})
			})
			return nil
		})
		wantIs(t, "Do", err, nil)
		_, err = c.TryLock(t.Context(), "k")
		wantIs(t, "TryLock while the child is inside", err, coord.ErrLocked)
		if len(sibling) != 0 {
			t.Error("a sibling went in beside the child")
		}
		close(leave)
		wantIs(t, "the child", <-child, nil)
		wantIs(t, "the sibling", <-sibling, nil)
		if tokens[1] <= tokens[0] {
			t.Errorf("token %d after %d, want a new hold", tokens[1], tokens[0])
		}
	})
}

// The loss of a hold ends the waits for a turn in it, and a context or WaitAtMost ends one wait.
func TestWaitForATurnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		err := coord.Do(t.Context(), c, "k", func(ctx context.Context) error {
			free := context.WithoutCancel(ctx)
			child := started(func() error {
				return coord.Do(ctx, c, "k", func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(time.Second)
					return nil
				})
			})
			_, err := c.TryLock(free, "k")
			wantIs(t, "TryLock", err, coord.ErrLocked)
			_, err = c.Lock(free, "k", coord.WaitAtMost(10*time.Millisecond))
			wantIs(t, "Lock with WaitAtMost", err, coord.ErrLocked)
			cancelled, cancel := context.WithCancel(free)
			waits := started(func() error { return coord.Do(cancelled, c, "k", noWork) })
			_, err = c.Lock(free, "k", coord.MaxWaiting(1))
			wantIs(t, "Lock with MaxWaiting", err, coord.ErrLocked)
			cancel()
			wantIs(t, "a cancelled Do", <-waits, context.Canceled)
			wantIs(t, "a Do at the loss", coord.Do(free, c, "k", noWork), coord.ErrLost)
			wantIs(t, "the child", <-child, coord.ErrLost)
			return nil
		}, coord.NoRenew(), coord.TTL(100*time.Millisecond))
		wantIs(t, "Do", err, coord.ErrLost)
		wantIs(t, "Do afterwards", coord.Do(t.Context(), c, "k", noWork), nil)
	})
}

// A reader's hold is not made a writer's, also for one who waits for a turn; readers who wait go in at once when the last
// writer leaves.
func TestWriterBecomesAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		rw := c.ReadWrite()
		err := coord.Do(t.Context(), rw.Read(), "k", func(ctx context.Context) error {
			return coord.Do(ctx, rw.Write(), "k", noWork)
		})
		wantIs(t, "a reader that asks to write", err, coord.ErrInvalid)

		write, err := rw.Write().Lock(t.Context(), "k")
		wantIs(t, "Write", err, nil)
		ctx, cancel := write.Context(t.Context())
		defer cancel()
		read, err := rw.Read().Lock(ctx, "k")
		wantIs(t, "Read under Write", err, nil)
		ctx, cancel = read.Context(context.WithoutCancel(ctx))
		defer cancel()
		leave := make(chan struct{})
		stay := func(context.Context) error { <-leave; return nil }
		first := started(func() error { return coord.Do(ctx, rw.Read(), "k", stay) })
		second := started(func() error { return coord.Do(ctx, rw.Read(), "k", noWork) })
		writer := started(func() error { return coord.Do(ctx, rw.Write(), "k", noWork) })
		if len(first)+len(second)+len(writer) != 0 {
			t.Error("entries of a writer's hold did not take turns")
		}
		wantIs(t, "Unlock of the writer", write.Unlock(t.Context()), nil)
		wantIs(t, "a reader that waited for its turn", <-second, nil)
		wantIs(t, "a writer that waited for its turn", <-writer, coord.ErrInvalid)
		close(leave)
		wantIs(t, "the first reader", <-first, nil)
		wantIs(t, "Unlock of the reader", read.Unlock(t.Context()), nil)
		wantIs(t, "a writer afterwards", coord.Do(t.Context(), rw.Write(), "k", noWork), nil)
	})
}

// Wait gives up a lock that nobody else has entered; meanwhile others take the key, also those that share its context.
func TestCondWaitAndItsSiblings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		cond := c.Cond("k")
		err := coord.Do(t.Context(), c, "k", func(ctx context.Context) error {
			wantIs(t, "Wait at a nested entry", coord.Do(ctx, c, "k", cond.Wait), coord.ErrInvalid)
			leave := make(chan struct{})
			child := started(func() error {
				return coord.Do(ctx, c, "k", func(context.Context) error { <-leave; return nil })
			})
			wantIs(t, "Wait beside another goroutine's entry", cond.Wait(ctx), coord.ErrInvalid)
			close(leave)
			wantIs(t, "the other goroutine", <-child, nil)
			wantIs(t, "Wait under Detach", cond.Wait(coord.Detach(ctx)), coord.ErrInvalid)

			before, _ := coord.Held(ctx, "k")
			sibling := make(chan error, 1)
			go func() {
				time.Sleep(50 * time.Millisecond)
				sibling <- coord.Do(ctx, c, "k", cond.Signal)
			}()
			wantIs(t, "Wait", cond.Wait(ctx), nil)
			wantIs(t, "a sibling that signals", <-sibling, nil)
			return coord.Do(ctx, c, "k", func(ctx context.Context) error {
				if l, _ := coord.Held(ctx, "k"); l.Token() <= before.Token() {
					t.Errorf("token %d after %d, want that of the new hold", l.Token(), before.Token())
				}
				return nil
			})
		})
		wantIs(t, "Do", err, nil)
	})
}

// Handles of an owner are unlocked in any order, and a Do under it leaves none behind.
func TestOwnerByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newClient(t), coord.WithOwner(t.Context())
		lock := func() *coord.Lock {
			l, err := c.TryLock(ctx, "k")
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		a, b := lock(), lock()
		_ = a.Unlock(ctx)
		d := lock()
		wantIs(t, "Do under the owner", coord.Do(ctx, c, "k", noWork), nil)
		_ = b.Unlock(ctx)
		e := lock()
		_ = e.Unlock(ctx)
		if _, err := c.TryLock(t.Context(), "k"); !errors.Is(err, coord.ErrLocked) {
			t.Errorf("free while a handle is left: %v", err)
		}
		_ = d.Unlock(ctx)
		fresh := lock()
		if fresh.Token() <= a.Token() {
			t.Errorf("token %d after %d, want a new hold", fresh.Token(), a.Token())
		}
		_ = fresh.Unlock(ctx)
	})
}

// Who waits for another owner does not wait for itself.
func TestWaitForAnotherOwnerIsNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log testlog.Buffer
		c, err := coord.New(memory.New(), coord.WithLogger(log.Logger()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		l, err := c.Lock(coord.WithOwner(t.Context()), "k")
		wantIs(t, "Lock", err, nil)
		_, err = c.Lock(coord.WithOwner(t.Context()), "k", coord.WaitAtMost(3*time.Second))
		wantIs(t, "Lock of another owner", err, coord.ErrLocked)
		wantIs(t, "Unlock", l.Unlock(t.Context()), nil)
		if log.String() != "" {
			t.Errorf("logged: %s", log.String())
		}
	})
}

// Who waits for itself is told so after a second, once.
func TestWaitForItselfIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log testlog.Buffer
		c, err := coord.New(memory.New(), coord.WithLogger(log.Logger()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		for name, want := range map[string]string{"outer": "waiting for a lock that this client holds", "inner": "waiting for a goroutine that has entered"} {
			err := coord.Do(t.Context(), c, name, func(ctx context.Context) error {
				if name == "inner" {
					l, err := c.Lock(ctx, name)
					wantIs(t, "Lock under Do", err, nil)
					defer func() { _ = l.Unlock(ctx) }()
				} else {
					ctx = t.Context()
				}
				err := coord.Do(ctx, c, name, noWork, coord.WaitAtMost(3*time.Second))
				wantIs(t, "Do that waits for itself", err, coord.ErrLocked)
				return nil
			})
			wantIs(t, "Do", err, nil)
			if n := strings.Count(log.String(), want); n != 1 {
				t.Errorf("%s: %q was logged %d times, want once:\n%s", name, want, n, log.String())
			}
		}
	})
}
