package coord_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

// bent is a store some of whose calls are replaced. nil: the call.
type bent struct {
	sharingStore
	tryLock func(ctx context.Context, in driver.Locker, key string, r driver.Request) (driver.Grant, error)
	renew   func(ctx context.Context, in driver.Locker, key string, r driver.Request) (driver.Grant, error)
	unlock  func(ctx context.Context, in driver.Locker, key, id string) error
	shared  func(driver.SharedLocker) driver.SharedLocker
}

func (b bent) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if b.tryLock != nil {
		return b.tryLock(ctx, b.sharingStore, key, r)
	}
	return b.sharingStore.TryLock(ctx, key, r)
}

func (b bent) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if b.renew != nil {
		return b.renew(ctx, b.sharingStore, key, r)
	}
	return b.sharingStore.Renew(ctx, key, r)
}

func (b bent) Unlock(ctx context.Context, key, id string) error {
	if b.unlock != nil {
		return b.unlock(ctx, b.sharingStore, key, id)
	}
	return b.sharingStore.Unlock(ctx, key, id)
}

func (b bent) Shared() driver.SharedLocker {
	if b.shared != nil {
		return b.shared(b.sharingStore.Shared())
	}
	return b.sharingStore.Shared()
}

// queued is one with its own queue.
type queued struct {
	bent
	driver.Queuer
}

func (q queued) Info() driver.Info {
	info := q.bent.Info()
	info.Claims = append(info.Claims, driver.Fair, driver.Wake)
	return info
}

func (q queued) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	return q.Queuer.Lock(ctx, key, r, waits)
}

// heads is a store that keeps a refused head until it is granted or given back, for all clients.
type heads struct {
	driver.SharedLocker
	*oneHead
}

type oneHead struct {
	mu sync.Mutex
	id string
}

func (h heads) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.id != "" && h.id != r.ID {
		return driver.Grant{}, &driver.LockedError{}
	}
	head := r.Share.Head
	r.Share.Head = false
	g, err := h.SharedLocker.TryLock(ctx, key, r)
	switch {
	case err == nil:
		h.id = ""
	case head && errors.Is(err, driver.ErrLocked):
		h.id = r.ID
	}
	return g, err
}

func (h heads) Unlock(ctx context.Context, key, id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.SharedLocker.Unlock(ctx, key, id)
	if h.id == id {
		h.id, err = "", nil
	}
	return err
}

// asks is a store that is asked for the waiters of a condition by of.
type asks struct {
	driver.SharedLocker
	of func(ctx context.Context, in driver.SharedLocker, key string) ([]driver.Holder, error)
}

func (a asks) Holders(ctx context.Context, key string) ([]driver.Holder, error) {
	return a.of(ctx, a.SharedLocker, key)
}

// clientOf makes a client, which is closed with the test.
func clientOf(t *testing.T, b driver.Backend) *coord.Client {
	t.Helper()
	c, err := coord.New(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// lockAndUnlock takes a lock in the background, and gives what came of it.
func lockAndUnlock(ctx context.Context, l coord.Locker) <-chan error {
	got := make(chan error, 1)
	go func() {
		held, err := l.Lock(ctx, "k")
		if err == nil {
			err = held.Unlock(ctx)
		}
		got <- err
	}()
	synctest.Wait()
	return got
}

// isQueue tells the key of the queue for a shared key.
func isQueue(key string) bool { return strings.HasPrefix(key, "k") && key != "k" }

// A driver that panics when the place of a head is given back ends nothing else.
func TestDriverPanicsBehindASharedLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, hits := memory.NewStore(), new(atomic.Int64)
		c := clientOf(t, bent{
			sharingStore: polled{store.Open()},
			unlock: func(ctx context.Context, in driver.Locker, key, id string) error {
				if isQueue(key) && hits.Add(1) == 1 {
					panic("driver")
				}
				return in.Unlock(ctx, key, id)
			},
		})
		reader := mustShare(t, clientOf(t, store.Open()).ReadWrite().Read())
		got := lockAndUnlock(t.Context(), c.ReadWrite().Write())
		mustUnlock(t, reader)
		if err := <-got; err != nil {
			t.Error(err)
		}
		if hits.Load() == 0 {
			t.Error("the driver was not called")
		}
	})
}

// A driver that panics in a Wait leaves nothing that a Shutdown waits for.
func TestDriverPanicsInAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hits := new(atomic.Int64)
		c := clientOf(t, bent{
			sharingStore: polled{memory.NewStore().Open()},
			shared: func(in driver.SharedLocker) driver.SharedLocker {
				return asks{in, func(ctx context.Context, in driver.SharedLocker, key string) ([]driver.Holder, error) {
					if hits.Add(1) == 1 {
						panic("driver")
					}
					return in.Holders(ctx, key)
				}}
			},
		})
		err := coord.Do(t.Context(), c, "k", func(ctx context.Context) error { return c.Cond("k").Wait(ctx) })
		if hits.Load() == 0 || err != nil {
			t.Errorf("the driver was called %d times: %v", hits.Load(), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// A head that loses its place in the queue gives up its headship, which a store may keep, and queues again.
func TestHeadLosesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, head, lost := memory.NewStore(), &oneHead{}, new(atomic.Bool)
		open := func(renew func(context.Context, driver.Locker, string, driver.Request) (driver.Grant, error)) *coord.Client {
			b := polled{store.Open()}
			return clientOf(t, queued{bent{
				sharingStore: b, renew: renew,
				shared: func(in driver.SharedLocker) driver.SharedLocker { return heads{in, head} },
			}, b})
		}
		loser := open(func(ctx context.Context, in driver.Locker, key string, r driver.Request) (driver.Grant, error) {
			if isQueue(key) && lost.CompareAndSwap(false, true) {
				return driver.Grant{}, errors.Join(driver.ErrNotHeld, in.Unlock(ctx, key, r.ID))
			}
			return in.Renew(ctx, key, r)
		})
		reader := mustShare(t, open(nil).ReadWrite().Read())
		first := lockAndUnlock(t.Context(), loser.ReadWrite().Write())
		second := lockAndUnlock(t.Context(), open(nil).ReadWrite().Write())
		time.Sleep(coord.DefaultTTL / 2)
		if !lost.Load() {
			t.Fatal("the place was not lost")
		}
		mustUnlock(t, reader)
		begin := time.Now()
		for _, got := range []<-chan error{first, second} {
			if err := <-got; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("granted after %v, want soon", took)
		}
	})
}

// A head whose place is lost again and again, as on a machine that is starved, loses its turn and nothing else: nobody who
// comes later is let past those who queue, and no hold is affected.
func TestHeadThatLosesItsPlaceAlways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, lost := memory.NewStore(), new(atomic.Int64)
		starved := clientOf(t, queued{bent{
			sharingStore: polled{store.Open()},
			renew: func(ctx context.Context, in driver.Locker, key string, r driver.Request) (driver.Grant, error) {
				if !isQueue(key) {
					return in.Renew(ctx, key, r)
				}
				lost.Add(1)
				<-ctx.Done()
				return driver.Grant{}, ctx.Err()
			},
		}, store.Open()})
		holder, newcomer := clientOf(t, store.Open()).ReadWrite(), clientOf(t, store.Open()).ReadWrite()
		reader := mustShare(t, holder.Read())
		first := lockAndUnlock(t.Context(), starved.ReadWrite().Write())
		second := lockAndUnlock(t.Context(), clientOf(t, store.Open()).ReadWrite().Write())
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(7 * time.Millisecond) {
			mustRefuse(t, "a reader that comes later", newcomer.Read(), coord.ErrLocked)
		}
		if lost.Load() < 2 {
			t.Fatalf("the place was lost %d times, want again and again", lost.Load())
		}
		if err := reader.Err(); err != nil {
			t.Errorf("the reader: %v", err)
		}
		mustUnlock(t, reader)
		begin := time.Now()
		for _, got := range []<-chan error{first, second} {
			if err := <-got; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begin); took > 2*driver.HeadFor {
			t.Errorf("both writers: after %v, want a turn each", took)
		}
	})
}

// unreachable is the shared part of a store that cannot be reached while down is set.
type unreachable struct {
	driver.SharedLocker
	down *atomic.Bool
}

func (u unreachable) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if u.down.Load() {
		return driver.Grant{}, driver.ErrNotSent
	}
	return u.SharedLocker.TryLock(ctx, key, r)
}

// A place in the queue that is granted too late for its own lease is asked for again: the hold has a longer one. That
// ends when the store has not served the waiter for the whole lease of the hold.
func TestPlaceThatComesTooLate(t *testing.T) {
	for name, lateFor := range map[string]time.Duration{"for a while": coord.DefaultTTL / 2, "for good": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, late := memory.NewStore(), new(atomic.Int64)
				begin := time.Now()
				slow := clientOf(t, bent{
					sharingStore: polled{store.Open()},
					tryLock: func(ctx context.Context, in driver.Locker, key string, r driver.Request) (driver.Grant, error) {
						if isQueue(key) && time.Since(begin) < lateFor {
							late.Add(1)
							time.Sleep(r.TTL)
						}
						return in.TryLock(ctx, key, r)
					},
				})
				reader := mustShare(t, clientOf(t, store.Open()).ReadWrite().Read())
				got := lockAndUnlock(t.Context(), slow.ReadWrite().Write())
				time.Sleep(coord.DefaultTTL * 3 / 4)
				mustUnlock(t, reader)
				err := <-got
				if late.Load() < 2 {
					t.Fatalf("%d places came too late: the test shows nothing", late.Load())
				}
				if took := time.Since(begin); lateFor < coord.DefaultTTL {
					if err != nil {
						t.Error(err)
					}
				} else if !errors.Is(err, coord.ErrUnavailable) || took < coord.DefaultTTL || took > coord.DefaultTTL+2*time.Second {
					t.Errorf("%v after %v, want that the store is unavailable, after %v", err, took, coord.DefaultTTL)
				}
			})
		})
	}
}

// Who waits for a shared key outlasts an outage that is shorter than its TTL, at the head of the queue and behind it.
func TestWaitForASharedKeyOutlastsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, down := memory.NewStore(), new(atomic.Bool)
		open := func() *coord.Client {
			return clientOf(t, bent{
				sharingStore: polled{store.Open()},
				tryLock: func(ctx context.Context, in driver.Locker, key string, r driver.Request) (driver.Grant, error) {
					if down.Load() {
						return driver.Grant{}, driver.ErrNotSent
					}
					return in.TryLock(ctx, key, r)
				},
				renew: func(ctx context.Context, in driver.Locker, key string, r driver.Request) (driver.Grant, error) {
					if down.Load() {
						return driver.Grant{}, driver.ErrNotSent
					}
					return in.Renew(ctx, key, r)
				},
				shared: func(in driver.SharedLocker) driver.SharedLocker { return unreachable{in, down} },
			})
		}
		reader := mustShare(t, clientOf(t, store.Open()).ReadWrite().Read())
		first := lockAndUnlock(t.Context(), open().ReadWrite().Write())
		second := lockAndUnlock(t.Context(), open().ReadWrite().Write())
		time.Sleep(time.Second) // both have their places
		down.Store(true)
		time.Sleep(coord.DefaultTTL * 3 / 4)
		down.Store(false)
		mustUnlock(t, reader)
		for _, got := range []<-chan error{first, second} {
			if err := <-got; err != nil {
				t.Error(err)
			}
		}
	})
}

// A waiter that fails in an outage passes its signal on after it.
func TestCondPassesSignalOnAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		var until atomic.Pointer[time.Time] // of the outage, which begins when the waiter asks for its lock again
		asked := new(atomic.Int64)
		refused := func() error {
			if end := until.Load(); end != nil && time.Now().Before(*end) {
				return driver.ErrNotSent
			}
			return nil
		}
		a := clientOf(t, bent{
			sharingStore: polled{store.Open()},
			tryLock: func(ctx context.Context, in driver.Locker, key string, r driver.Request) (driver.Grant, error) {
				if asked.Add(1) == 2 {
					end := time.Now().Add(100 * time.Millisecond)
					until.Store(&end)
				}
				if err := refused(); err != nil {
					return driver.Grant{}, err
				}
				return in.TryLock(ctx, key, r)
			},
			shared: func(in driver.SharedLocker) driver.SharedLocker {
				return asks{in, func(ctx context.Context, in driver.SharedLocker, key string) ([]driver.Holder, error) {
					if err := refused(); err != nil {
						return nil, err
					}
					return in.Holders(ctx, key)
				}}
			},
		})
		b, c := clientOf(t, store.Open()), clientOf(t, store.Open())
		first, second := waitOnce(t.Context(), a), waitOnce(t.Context(), c)
		begin := time.Now()
		underLock(t, b, b.Cond("k").Signal)
		if err := <-first; !errors.Is(err, coord.ErrUnavailable) {
			t.Errorf("the first: %v, want ErrUnavailable", err)
		}
		if err := <-second; err != nil {
			t.Errorf("the second: %v", err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the second was woken after %v: the signal was lost", took)
		}
	})
}

// A writer who reads too, and whose hold is over, is told so by Unlock, without a request.
func TestUnlockOfALostWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := new(atomic.Bool)
		c := clientOf(t, bent{
			sharingStore: polled{memory.NewStore().Open()},
			shared:       func(in driver.SharedLocker) driver.SharedLocker { return cutOff{in, down} },
		})
		ctx := coord.WithOwner(t.Context())
		w, r := lockTwice(ctx, t, c)
		down.Store(true)
		<-w.Done()
		for _, l := range []*coord.Lock{w, r} {
			if err := l.Unlock(ctx); !errors.Is(err, coord.ErrLost) {
				t.Errorf("Unlock: %v, want ErrLost", err)
			}
		}
		down.Store(false)
	})
}

// silent is a client of a new store that does not answer who waits for a condition, until the call's context ends.
func silent(t *testing.T) *coord.Client {
	t.Helper()
	return clientOf(t, bent{
		sharingStore: polled{memory.NewStore().Open()},
		shared: func(in driver.SharedLocker) driver.SharedLocker {
			return asks{in, func(ctx context.Context, _ driver.SharedLocker, _ string) ([]driver.Holder, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}
		},
	})
}

// A Wait ends with its context, also while the store does not answer.
func TestCondWaitOfASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := silent(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := <-waitOnce(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do: %v, want DeadlineExceeded", err)
		}
		if took := time.Since(begin); took > 1100*time.Millisecond {
			t.Errorf("Wait returned after %v, its context ended after 1s", took)
		}
	})
}

// Close ends a Wait at once, also while the store does not answer.
func TestCondCloseOfASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := silent(t)
		got := waitOnce(t.Context(), c)
		time.Sleep(time.Second) // the store is asked
		begin := time.Now()
		var closing sync.WaitGroup
		closing.Go(func() {
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
		if err := <-got; !errors.Is(err, coord.ErrClosed) {
			t.Errorf("Do: %v, want ErrClosed", err)
		}
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Errorf("Wait returned %v after Close had begun, want at once", took)
		}
		closing.Wait()
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

// cutOff is a store that renews nothing while it is down.
type cutOff struct {
	driver.SharedLocker
	down *atomic.Bool
}

func (c cutOff) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if c.down.Load() {
		return driver.Grant{}, driver.ErrNotSent
	}
	return c.SharedLocker.Renew(ctx, key, r)
}

// renewsLate is a store whose renewals wait until they are let go.
type renewsLate struct {
	driver.SharedLocker
	letGo <-chan struct{}
}

func (s renewsLate) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	<-s.letGo
	return s.SharedLocker.Renew(ctx, key, r)
}

// A writer whose owner reads too has lost nothing when the reader is unlocked before the store has answered the writer.
func TestUnlockOfAWriterWhileItsReaderIsUnlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		c := clientOf(t, bent{
			sharingStore: polled{memory.NewStore().Open()},
			shared:       func(in driver.SharedLocker) driver.SharedLocker { return renewsLate{in, letGo} },
		})
		ctx := coord.WithOwner(t.Context())
		w, r := lockTwice(ctx, t, c)
		unlocked := make(chan error, 1)
		go func() { unlocked <- w.Unlock(ctx) }()
		synctest.Wait()
		mustUnlock(t, r)
		close(letGo)
		if err := <-unlocked; err != nil {
			t.Errorf("Unlock of the writer: %v", err)
		}
	})
}

// lockTwice locks "k" for the owner of ctx, as a writer and again as a reader.
func lockTwice(ctx context.Context, t *testing.T, c *coord.Client, opts ...coord.LockOption) (w, r *coord.Lock) {
	t.Helper()
	w, err := c.ReadWrite().Write().Lock(ctx, "k", opts...)
	if err != nil {
		t.Fatal(err)
	}
	if r, err = c.ReadWrite().Read().Lock(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	return w, r
}
