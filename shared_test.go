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
)

// sharers makes clients of one store in memory.
func sharers(t *testing.T, n int, opts ...coord.Option) []*coord.Client {
	t.Helper()
	store := memory.NewStore()
	clients := make([]*coord.Client, n)
	for i := range clients {
		c, err := coord.New(store.Open(), opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
		clients[i] = c
	}
	return clients
}

func mustShare(t *testing.T, l coord.Locker, opts ...coord.LockOption) *coord.Lock {
	t.Helper()
	lock, err := l.TryLock(t.Context(), "k", opts...)
	if err != nil {
		t.Fatalf("TryLock: %v", err)
	}
	return lock
}

func mustRefuse(t *testing.T, what string, l coord.Locker, want error, opts ...coord.LockOption) {
	t.Helper()
	if _, err := l.TryLock(t.Context(), "k", opts...); !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func mustUnlock(t *testing.T, l *coord.Lock) {
	t.Helper()
	if err := l.Unlock(t.Context()); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}

// A waiting writer comes before readers that come after it, and is woken when the last reader leaves.
func TestWriterIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 2)
		reader := mustShare(t, c[0].ReadWrite().Read())
		got := make(chan *coord.Lock)
		go func() {
			w, err := c[1].ReadWrite().Write().Lock(t.Context(), "k")
			if err != nil {
				t.Errorf("writer: %v", err)
			}
			got <- w
		}()
		time.Sleep(5 * time.Second)
		var listed []string
		for key, err := range c[0].List(t.Context(), "") {
			if err != nil {
				t.Error(err)
			}
			listed = append(listed, key)
		}
		if len(listed) != 1 || listed[0] != "k" {
			t.Errorf("List gives %q: want what is read, and no key of coord's own", listed)
		}
		mustRefuse(t, "a reader behind a writer that waits", c[0].ReadWrite().Read(), coord.ErrLocked)
		mustRefuse(t, "a reader of the writer's client", c[1].ReadWrite().Read(), coord.ErrLocked)
		begin := time.Now()
		mustUnlock(t, reader)
		w := <-got
		if waited := time.Since(begin); waited > 0 {
			t.Errorf("the writer was woken after %v, want at once", waited)
		}
		mustUnlock(t, w)
	})
}

// A hold that is not renewed ends when it would have, also if it became a reader's meanwhile.
func TestDowngradeWithoutRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 2)
		ctx := coord.WithOwner(t.Context())
		w, r := lockTwice(ctx, t, c[0], coord.NoRenew())
		want := w.Deadline()
		time.Sleep(coord.DefaultTTL / 2)
		mustUnlock(t, w)
		if got := r.Deadline(); !got.Equal(want) {
			t.Errorf("deadline %v, want %v", got, want)
		}
		<-r.Done()
		synctest.Wait()
		mustUnlock(t, mustShare(t, c[1].ReadWrite().Write()))
	})
}

// A reader that was granted the key with a writer of its owner, who has given up waiting, keeps out no other reader.
func TestCancelledWriterLeavesAReader(t *testing.T) {
	for name, opts := range map[string][]coord.LockOption{"renewed": nil, "not renewed": {coord.NoRenew()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := sharers(t, 2)
				rw, other := c[0].ReadWrite(), c[1].ReadWrite()
				before := mustShare(t, other.Read())
				owner := coord.WithOwner(t.Context())
				writing, cancel := context.WithCancel(owner)
				written := lockInBackground(writing, rw.Write(), opts...)
				read := lockInBackground(owner, rw.Read(), opts...)
				cancel()
				if err := (<-written).err; !errors.Is(err, context.Canceled) {
					t.Fatalf("the writer: %v, want Canceled", err)
				}
				mustUnlock(t, before)
				r := <-read
				if r.err != nil {
					t.Fatal(r.err)
				}
				mustUnlock(t, mustShare(t, other.Read()))
				if _, err := rw.Write().TryLock(owner, "k"); !errors.Is(err, coord.ErrInvalid) {
					t.Errorf("an upgrade: %v, want ErrInvalid", err)
				}
				mustUnlock(t, r.lock)
				mustUnlock(t, mustShare(t, other.Write()))
			})
		})
	}
}

// lockInBackground waits for "k" in a goroutine.
func lockInBackground(ctx context.Context, l coord.Locker, opts ...coord.LockOption) <-chan locked {
	got := make(chan locked, 1)
	go func() {
		lock, err := l.Lock(ctx, "k", opts...)
		got <- locked{lock, err}
	}()
	synctest.Wait()
	return got
}

// locked is what came of a Lock.
type locked struct {
	lock *coord.Lock
	err  error
}

// What a dead holder had is free within its TTL, and what the others have stays.
func TestDeadHolderOfASemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 2)
		lives := mustShare(t, c[0].Semaphore(2), coord.TTL(10*time.Second))
		mustShare(t, c[1].Semaphore(2), coord.TTL(10*time.Second), coord.NoRenew())
		begin := time.Now()
		l, err := c[0].Semaphore(2).Lock(t.Context(), "k")
		if waited := time.Since(begin); err != nil || waited > 10*time.Second+100*time.Millisecond || waited < 9*time.Second {
			t.Fatalf("after %v: %v, want a permit when the lease ends", waited, err)
		}
		if err := lives.Err(); err != nil {
			t.Errorf("the other hold: %v", err)
		}
		mustUnlock(t, l)
		mustUnlock(t, lives)
	})
}

// A reader's late access is refused after a writer's, and a writer's after a later reader's.
func TestGuardMarks(t *testing.T) {
	var g coord.Guard
	for i, step := range []struct {
		check func(string, coord.Token) error
		token coord.Token
		want  error
	}{
		{g.CheckRead, 5, nil},
		{g.CheckRead, 3, nil}, // beside the other
		{g.CheckWrite, 4, coord.ErrLost},
		{g.CheckWrite, 7, nil},
		{g.CheckRead, 5, coord.ErrLost},
		{g.CheckRead, 7, nil},
		{g.Check, 6, coord.ErrLost},
		{g.CheckWrite, 8, nil},
		{g.CheckRead, 0, coord.ErrInvalid},
	} {
		if err := step.check("k", step.token); !errors.Is(err, step.want) {
			t.Errorf("step %d: %v, want %v", i, err, step.want)
		}
	}
}

// MaxWaiting refuses a wait behind so many others of the client, and nothing that need not wait.
func TestMaxWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 1)[0]
		for name, l := range map[string]coord.Locker{"exclusive": c, "semaphore": c.Semaphore(1), "write": c.ReadWrite().Write()} {
			for _, opts := range [][]coord.LockOption{{coord.MaxWaiting(2)}, {coord.MaxWaiting(2), coord.Fair()}} {
				held := mustShare(t, l)
				var waiting sync.WaitGroup
				for range 2 {
					waiting.Go(func() {
						w, err := l.Lock(t.Context(), "k", opts...)
						if err != nil {
							t.Errorf("%s: %v", name, err)
							return
						}
						mustUnlock(t, w)
					})
					synctest.Wait()
				}
				bounded, cancel := context.WithTimeout(t.Context(), time.Second)
				if _, err := l.Lock(bounded, "k", opts...); !errors.Is(err, coord.ErrLocked) || bounded.Err() != nil {
					t.Errorf("%s, %d options: a third wait: %v, want ErrLocked at once", name, len(opts), err)
				}
				cancel()
				mustUnlock(t, held)
				waiting.Wait()
			}
		}
		var taking sync.WaitGroup
		for range 50 {
			taking.Go(func() {
				l, err := c.Semaphore(50).Lock(t.Context(), "free", coord.MaxWaiting(1))
				if err != nil {
					t.Errorf("a permit that is free: %v", err)
					return
				}
				time.Sleep(time.Second)
				mustUnlock(t, l)
			})
		}
		taking.Wait()
	})
}

// A try is not refused because others of the client have waited a moment ago.
func TestTryAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 1)[0]
		s := c.Semaphore(2)
		one, two := mustShare(t, s), mustShare(t, s)
		got := make(chan *coord.Lock)
		go func() {
			l, err := s.Lock(t.Context(), "k")
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		synctest.Wait()
		mustUnlock(t, one)
		three := <-got
		mustUnlock(t, two)
		mustUnlock(t, mustShare(t, s))
		mustUnlock(t, three)
	})
}
