package coord

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// directStore is a fakeStore with a line.
type directStore struct{ *fakeStore }

func (f directStore) Info() driver.Info { return claiming(f.fakeStore, driver.Fair) }

func (d directStore) Lock(ctx context.Context, key string, r driver.Request, waits func()) (g driver.Grant, err error) {
	for waited := false; ; {
		var taken bool
		err := d.do(ctx, "lock", key, func() error {
			now, l := time.Now(), d.live(key)
			switch {
			case l == nil:
				d.token++
				d.leases[key] = &fakeLease{id: r.ID, token: d.token, end: now.Add(r.TTL)}
				g = driver.Grant{Token: d.token, TTL: r.TTL, Since: now}
			case l.id == r.ID:
				l.end = now.Add(r.TTL)
				g = driver.Grant{Token: l.token, TTL: r.TTL, Since: now}
			default:
				taken = true
			}
			return nil
		})
		if err != nil || !taken {
			return g, err
		}
		if !waited {
			waits()
			waited = true
		}
		select {
		case <-ctx.Done():
			return driver.Grant{}, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// Fair requests, and those for a key that others held lately, go straight to the store's queue;
// others try first.
func TestStraightToTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := directStore{newFake()}
		d.info.Claims = append(d.info.Claims, driver.Fair)
		c := newTestClient(t, d)
		lock := func(tries, asks int, opts ...LockOption) {
			t.Helper()
			try, ask := d.count("trylock"), d.count("lock")
			l := must[*Lock](t)(c.Lock(t.Context(), "k", opts...))
			if tries != d.count("trylock")-try || asks != d.count("lock")-ask {
				t.Errorf("%d tries and %d questions, want %d and %d", d.count("trylock")-try, d.count("lock")-ask, tries, asks)
			}
			if err := l.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		lock(1, 0)
		lock(0, 1, Fair())
		if _, err := c.TryLock(t.Context(), "k", Fair()); err != nil {
			t.Fatal(err)
		}
		if n := d.count("trylock"); n != 2 {
			t.Errorf("%d tries, want that TryLock is one", n)
		}
	})
}

// An unavailable store fails a direct attempt at once, one in the queue waits on.
func TestDirectAttemptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := directStore{newFake()}
		d.info.Claims = append(d.info.Claims, driver.Fair)
		c := newTestClient(t, d)
		d.setIntercept(func(op, _ string) outcome {
			if op == "lock" {
				return outcome{before: errWire}
			}
			return outcome{}
		})
		start := time.Now()
		_, err := c.Lock(t.Context(), "k", Fair())
		wantErr(t, err, ErrUnavailable, ErrUnknownOutcome)
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("failed after %v", took)
		}
		d.setIntercept(nil)
		ended, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		held := must[*Lock](t)(newTestClient(t, d.fakeStore).Lock(t.Context(), "k"))
		_, err = c.Lock(ended, "k", Fair())
		wantErr(t, err, ErrLocked, context.DeadlineExceeded)
		if err := held.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// Who waits directly is known to wait: tries of its client are refused meanwhile.
func TestDirectWaiterIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := directStore{newFake()}
		c, other := newTestClient(t, d), newTestClient(t, d.fakeStore)
		held := must[*Lock](t)(other.Lock(t.Context(), "k"))
		for range 2 { // the first tries, the second knows of rivals
			wait, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				if l, err := c.Lock(wait, "k"); err == nil {
					t.Errorf("locked: %v", l)
				}
			}()
			synctest.Wait()
			go func() { // keeps the slot
				if _, err := c.Lock(wait, "k"); err == nil {
					t.Error("locked")
				}
			}()
			synctest.Wait()
			_, err := c.TryLock(t.Context(), "k")
			wantErr(t, err, ErrLocked)
			cancel()
			<-done
			synctest.Wait()
		}
		if err := held.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// A waiter whose store has fallen silent waits on for a TTL, and not as long as the silence lasts, however long
// each call on it takes to fail.
func TestDirectWaiterOfASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := directStore{newFake()}
		d.info.Claims = append(d.info.Claims, driver.Fair)
		c := newTestClient(t, d)
		held := must[*Lock](t)(newTestClient(t, d.fakeStore).Lock(t.Context(), "k", TTL(time.Hour)))
		time.AfterFunc(time.Minute, func() {
			d.setIntercept(func(op, _ string) outcome {
				if op == "lock" {
					time.Sleep(3 * time.Second)
					return outcome{before: errWire}
				}
				return outcome{}
			})
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		start := time.Now()
		_, err := c.Lock(ctx, "k", Fair(), TTL(20*time.Second))
		wantErr(t, err, ErrUnavailable)
		if took := time.Since(start) - time.Minute; took < 20*time.Second || took > 30*time.Second {
			t.Errorf("failed %v after the store fell silent, want a TTL of 20s after", took)
		}
		d.setIntercept(nil)
		if err := held.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// lateStore grants a place in its queue after a wait, and its answer comes later still.
type lateStore struct {
	directStore
	wait, late time.Duration
}

func (f lateStore) Info() driver.Info { return claiming(f.directStore, driver.Fair) }

func (s lateStore) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	waits()
	time.Sleep(s.wait)
	g, err := s.directStore.Lock(ctx, key, r, waits)
	time.Sleep(s.late)
	return g, err
}

// A grant whose lease has run out on the way says how long it was on its way, without the wait before it.
func TestLateGrantSaysHowLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := lateStore{directStore{newFake()}, 20 * time.Second, 12 * time.Second}
		d.info.Claims = append(d.info.Claims, driver.Fair)
		c := newTestClient(t, d)
		_, err := c.Lock(t.Context(), "k", Fair(), TTL(10*time.Second))
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "the grant took 12s, too long for a lease of 10s") {
			t.Errorf("saw %v, want that the grant took 12s", err)
		}
	})
}
