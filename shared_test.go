package coord_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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

// Readers are together, a writer is alone, over clients.
func TestReadWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 2)
		a, b := c[0].ReadWrite(), c[1].ReadWrite()
		one, two := mustShare(t, a.Read()), mustShare(t, b.Read())
		mustRefuse(t, "a writer beside readers", b.Write(), coord.ErrLocked)
		if one.Slot() == two.Slot() || two.Token() <= one.Token() {
			t.Errorf("slots %d and %d, tokens %d and %d: want different slots, rising tokens", one.Slot(), two.Slot(), one.Token(), two.Token())
		}
		mustUnlock(t, one)
		mustUnlock(t, two)
		w := mustShare(t, b.Write())
		mustRefuse(t, "a reader beside a writer", a.Read(), coord.ErrLocked)
		mustRefuse(t, "a writer beside a writer", a.Write(), coord.ErrLocked)
		if w.Token() <= two.Token() {
			t.Errorf("token %d after %d", w.Token(), two.Token())
		}
		mustShare(t, c[0]) // an exclusive lock of the same name is another thing
		mustUnlock(t, w)
		mustUnlock(t, mustShare(t, a.Read()))
	})
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
		for key, err := range c[0].List(t.Context(), "") {
			t.Errorf("List gives %q, %v: want no key of coord's own", key, err)
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

// A semaphore is never above its bound, however many want it, and everybody gets it.
func TestSemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, rounds = 4, 20
		clients := sharers(t, 3)
		var inside, most atomic.Int64
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				s := clients[i%3].Semaphore(n)
				weight := 1 + i%3
				for range rounds {
					err := coord.Do(t.Context(), s, "k", func(ctx context.Context) error {
						now := inside.Add(int64(weight))
						defer inside.Add(-int64(weight))
						for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
						}
						time.Sleep(time.Millisecond)
						l, held := s.Held(ctx, "k")
						if !held || l.Slot() >= n {
							t.Errorf("held %v, slot %v: want less than %d", held, l.Slot(), n)
						}
						return nil
					}, coord.Weight(weight))
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if m := most.Load(); m > n || m < n-1 {
			t.Errorf("%d permits were held at once, want %d", m, n)
		}
	})
}

// The options of a semaphore are checked.
func TestSemaphoreOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 1)[0]
		mustRefuse(t, "no permits", c.Semaphore(0), coord.ErrInvalid)
		mustRefuse(t, "more than all", c.Semaphore(3), coord.ErrExceedsBound, coord.Weight(4))
		mustRefuse(t, "weight 0", c.Semaphore(3), coord.ErrInvalid, coord.Weight(0))
		mustRefuse(t, "weight of a reader", c.ReadWrite().Read(), coord.ErrInvalid, coord.Weight(2))
		mustRefuse(t, "weight of an exclusive lock", c, coord.ErrInvalid, coord.Weight(2))
	})
}

// The least bound of those who hold and of who asks counts.
func TestSemaphoreBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 2)
		wide, narrow := c[0].Semaphore(3), c[1].Semaphore(1)
		one := mustShare(t, wide)
		mustRefuse(t, "one of 1 beside one of 3", narrow, coord.ErrLocked)
		mustUnlock(t, mustShare(t, wide))
		mustUnlock(t, one)
		one = mustShare(t, narrow)
		mustRefuse(t, "one of 3 beside one of 1", wide, coord.ErrLocked)
		mustUnlock(t, one)
	})
}

// A writer reads too, and becomes a reader in one step. A reader does not become a writer.
func TestDowngrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 2)
		rw, other := c[0].ReadWrite(), c[1].ReadWrite()
		ctx := coord.WithOwner(t.Context())
		w, err := rw.Write().Lock(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		r, err := rw.Read().Lock(ctx, "k")
		if err != nil || r.Token() != w.Token() {
			t.Fatalf("a writer that reads: %v, want its token", err)
		}
		mustRefuse(t, "a reader beside a writer", other.Read(), coord.ErrLocked)
		mustUnlock(t, w)
		mustRefuse(t, "a writer after the downgrade", other.Write(), coord.ErrLocked)
		beside := mustShare(t, other.Read())
		if _, err := rw.Write().Lock(ctx, "k"); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("an upgrade: %v, want ErrInvalid", err)
		}
		mustUnlock(t, beside)
		mustUnlock(t, r)
		mustUnlock(t, mustShare(t, other.Write()))
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

// A wait for a share that is cancelled leaves nothing behind, and the next in the queue goes on.
func TestHeadThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 3)
		reader := mustShare(t, c[0].ReadWrite().Read())
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := c[1].ReadWrite().Write().Lock(ctx, "k"); !errors.Is(err, coord.ErrLocked) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a writer that gives up: %v", err)
		}
		synctest.Wait()
		time.Sleep(50 * time.Millisecond) // for the janitor
		mustUnlock(t, mustShare(t, c[2].ReadWrite().Read()))
		mustUnlock(t, reader)
	})
}

// Holders shows who shares a key, and Break takes it from one of them.
func TestHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 2, coord.WithLockDefaults(coord.TTL(3*time.Second)))
		s := c[0].Semaphore(5)
		a := mustShare(t, s, coord.Weight(3), coord.HolderName("a"))
		mustShare(t, c[1].Semaphore(5), coord.HolderName("b"))
		holders, err := s.Holders(t.Context(), "k")
		if err != nil || len(holders) != 2 {
			t.Fatalf("%+v, %v: want two", holders, err)
		}
		if h := holders[0]; h.Name != "a" || h.Weight != 3 || h.Of != 5 || h.Slot != 0 || h.Token != a.Token() {
			t.Errorf("%+v: want a with 3 of 5 in slot 0 under %d", h, a.Token())
		}
		if err := s.Break(t.Context(), "k", holders[0].ID); err != nil {
			t.Fatal(err)
		}
		mustRefuse(t, "what was broken is taken until its lease ends", s, coord.ErrLocked, coord.Weight(2))
		time.Sleep(3 * time.Second)
		if err := a.Err(); !errors.Is(err, coord.ErrLost) {
			t.Errorf("the hold that was broken: %v, want ErrLost", err)
		}
		mustUnlock(t, mustShare(t, s, coord.Weight(4)))
	})
}

// Watch of a group tells who is there.
func TestWatchGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 2)
		group := c[0].ReadWrite().Read()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		counts := make(chan int, 10)
		var watching sync.WaitGroup
		watching.Go(func() {
			for holders, err := range group.Watch(ctx, "k") {
				if err == nil {
					counts <- len(holders)
				}
			}
		})
		next := func(want int) {
			t.Helper()
			if n := <-counts; n != want {
				t.Errorf("%d members, want %d", n, want)
			}
		}
		next(0)
		a := mustShare(t, group)
		next(1)
		b := mustShare(t, c[1].ReadWrite().Read())
		next(2)
		mustUnlock(t, a)
		next(1)
		mustUnlock(t, b)
		next(0)
		cancel()
		watching.Wait()
	})
}

// Close ends waits and gives back what is held.
func TestCloseOfSharedHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharers(t, 2)
		l := mustShare(t, c[0].Semaphore(1))
		waits := make(chan error)
		go func() {
			_, err := c[0].Semaphore(1).Lock(t.Context(), "k")
			waits <- err
		}()
		time.Sleep(time.Second)
		if err := c[0].Close(); err != nil {
			t.Error(err)
		}
		if err := <-waits; !errors.Is(err, coord.ErrClosed) {
			t.Errorf("a wait: %v, want ErrClosed", err)
		}
		if err := l.Err(); !errors.Is(err, coord.ErrClosed) {
			t.Errorf("a hold: %v, want ErrClosed", err)
		}
		mustUnlock(t, mustShare(t, c[1].Semaphore(1)))
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
