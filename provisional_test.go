package coord

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// provisionalStore is a fakeStore with a line, whose waiters are granted a second at first.
type provisionalStore struct {
	*fakeStore
	arrives func() // called between a grant to a waiter and the answer to it
}

const provisionalLease = time.Second

func (p *provisionalStore) Lock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return p.LockDirect(ctx, key, r, func() {})
}

func (p *provisionalStore) LockDirect(ctx context.Context, key string, r driver.Request, waits func()) (g driver.Grant, err error) {
	waited := false
	for {
		var taken bool
		err := p.do(ctx, "lock", key, func() error {
			now, l := time.Now(), p.live(key)
			switch {
			case l == nil && waited && !r.Whole:
				p.token++
				p.leases[key] = &fakeLease{id: r.ID, token: p.token, end: now.Add(provisionalLease)}
				g = driver.Grant{Token: p.token, TTL: provisionalLease, Since: now, Provisional: true}
			case l == nil:
				p.token++
				p.leases[key] = &fakeLease{id: r.ID, token: p.token, end: now.Add(r.TTL)}
				g = driver.Grant{Token: p.token, TTL: r.TTL, Since: now}
			case l.id == r.ID:
				l.end = now.Add(r.TTL)
				g = driver.Grant{Token: l.token, TTL: r.TTL, Since: now}
			default:
				taken = true
			}
			return nil
		})
		if err != nil || !taken {
			if waited && p.arrives != nil {
				p.arrives()
			}
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

// provisionally gives a lock that was waited for.
func provisionally(t *testing.T, p *provisionalStore, c *Client, opts ...LockOption) *Lock {
	t.Helper()
	other := newTestClient(t, p.fakeStore)
	held := must[*Lock](t)(other.Lock(t.Context(), "k"))
	locked := make(chan *Lock)
	go func() {
		l, err := c.Lock(t.Context(), "k", opts...)
		if err != nil {
			t.Error(err)
		}
		locked <- l
	}()
	time.Sleep(10 * time.Millisecond)
	if err := held.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	return <-locked
}

// A provisional grant is renewed at once, without Lock waiting for it, and is the whole lease
// then.
func TestProvisionalGrantIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provisionalStore{fakeStore: newFake()}
		c := newTestClient(t, p)
		l := provisionally(t, p, c, TTL(time.Minute))
		if l.TTL() != provisionalLease || time.Until(l.Deadline()) > provisionalLease || p.count("renew") != 0 {
			t.Errorf("TTL %v, certain for %v after %d renewals", l.TTL(), time.Until(l.Deadline()), p.count("renew"))
		}
		time.Sleep(50 * time.Millisecond)
		if n := p.count("renew"); n != 1 || l.TTL() != time.Minute || time.Until(l.Deadline()) < 59*time.Second {
			t.Errorf("after %d renewals: TTL %v, certain for %v", n, l.TTL(), time.Until(l.Deadline()))
		}
		time.Sleep(10 * time.Second)
		if n := p.count("renew"); n != 1 || l.Err() != nil {
			t.Errorf("%d renewals, %v: the next is due after a third of the TTL", n, l.Err())
		}
	})
}

// One that is unlocked first is not renewed at all.
func TestProvisionalGrantUnlockedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provisionalStore{fakeStore: newFake()}
		c := newTestClient(t, p)
		l := provisionally(t, p, c, TTL(time.Minute))
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if n := p.count("renew"); n != 0 {
			t.Errorf("%d renewals of a lock that was unlocked", n)
		}
	})
}

// A renewal that fails is repeated while the provisional lease lasts, and then the lock is lost,
// before anyone else can have it.
func TestProvisionalGrantThatCannotBeRenewed(t *testing.T) {
	for name, healed := range map[string]bool{"a passing failure": true, "a lasting failure": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &provisionalStore{fakeStore: newFake()}
				c := newTestClient(t, p)
				l := provisionally(t, p, c, TTL(time.Minute))
				start := time.Now()
				p.setIntercept(func(op, _ string) outcome {
					if op == "renew" && (!healed || time.Since(start) < 500*time.Millisecond) {
						return outcome{before: errWire}
					}
					return outcome{}
				})
				time.Sleep(provisionalLease - 20*time.Millisecond)
				if err := l.Err(); err != nil {
					t.Errorf("%v after %v, before the lease is over", err, time.Since(start))
				}
				<-time.After(20 * time.Millisecond)
				if lost := errors.Is(l.Err(), ErrLost); lost == healed || isClosed(l.Done()) == healed {
					t.Errorf("lost: %v", l.Err())
				}
			})
		})
	}
}

// A holder that nobody renews for, or whose MinHold is to outlive it, has the whole lease first.
func TestNoProvisionalGrantWhereItIsNotRenewed(t *testing.T) {
	for name, opt := range map[string]LockOption{"NoRenew": NoRenew(), "MinHold": MinHold(5 * time.Second)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &provisionalStore{fakeStore: newFake()}
				c := newTestClient(t, p)
				l := provisionally(t, p, c, TTL(time.Minute), opt)
				if l.TTL() != time.Minute {
					t.Errorf("TTL %v", l.TTL())
				}
				time.Sleep(10 * time.Second)
				if n := p.count("renew"); n != 0 || l.Err() != nil {
					t.Errorf("%d renewals, %v", n, l.Err())
				}
			})
		})
	}
}

// A provisional lease is over after a second of MaxHold like any other.
func TestProvisionalGrantWithMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provisionalStore{fakeStore: newFake()}
		c := newTestClient(t, p)
		l := provisionally(t, p, c, TTL(time.Minute), MaxHold(3*time.Second))
		time.Sleep(2 * time.Second)
		if l.Err() != nil {
			t.Errorf("after 2s: %v", l.Err())
		}
		time.Sleep(time.Second)
		wantErr(t, l.Err(), ErrMaxHold)
	})
}

// A process that is stopped between the grant and the return of Lock asks the store what it
// still has.
func TestProvisionalGrantThatLapsedOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provisionalStore{fakeStore: newFake()}
		c := newTestClient(t, p)
		stopped := 0
		p.arrives = func() {
			if stopped++; stopped == 1 {
				time.Sleep(2 * time.Second)
			}
		}
		l := provisionally(t, p, c, TTL(time.Minute))
		if l.Err() != nil || l.TTL() != time.Minute || stopped != 1 || !p.held("k") {
			t.Errorf("%v, TTL %v, %d grants", l.Err(), l.TTL(), stopped)
		}
		if int64(l.Token())>>10 != p.token || p.token != 3 {
			t.Errorf("token %d, the store's is %d", l.Token(), p.token)
		}
	})
}

// One that is stopped after Lock has returned sees the loss in its first look.
func TestProvisionalHolderThatIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provisionalStore{fakeStore: newFake()}
		c := newTestClient(t, p)
		var stopped time.Duration
		c.clock.read = func() instant {
			i := c.clock.instant(time.Now())
			return i.add(stopped)
		}
		l := provisionally(t, p, c, TTL(time.Minute))
		stopped = time.Second
		wantErr(t, l.Err(), ErrLost)
	})
}

// Fair requests, and those for a key that others held lately, go straight to the store's line;
// others try first.
func TestStraightToTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provisionalStore{fakeStore: newFake()}
		p.info.Claims = append(p.info.Claims, driver.Fair)
		c := newTestClient(t, p)
		lock := func(tries, asks int, opts ...LockOption) {
			t.Helper()
			try, ask := p.count("trylock"), p.count("lock")
			l := must[*Lock](t)(c.Lock(t.Context(), "k", opts...))
			if tries != p.count("trylock")-try || asks != p.count("lock")-ask {
				t.Errorf("%d tries and %d questions, want %d and %d", p.count("trylock")-try, p.count("lock")-ask, tries, asks)
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
		if n := p.count("trylock"); n != 2 {
			t.Errorf("%d tries, want that TryLock is one", n)
		}
	})
}

// An unavailable store fails a direct attempt at once, one in line waits on.
func TestDirectAttemptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provisionalStore{fakeStore: newFake()}
		p.info.Claims = append(p.info.Claims, driver.Fair)
		c := newTestClient(t, p)
		p.setIntercept(func(op, _ string) outcome {
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
		p.setIntercept(nil)
		ended, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		held := must[*Lock](t)(newTestClient(t, p.fakeStore).Lock(t.Context(), "k"))
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
		p := &provisionalStore{fakeStore: newFake()}
		c, other := newTestClient(t, p), newTestClient(t, p.fakeStore)
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
		p := &provisionalStore{fakeStore: newFake()}
		p.info.Claims = append(p.info.Claims, driver.Fair)
		c := newTestClient(t, p)
		held := must[*Lock](t)(newTestClient(t, p.fakeStore).Lock(t.Context(), "k", TTL(time.Hour)))
		time.AfterFunc(time.Minute, func() {
			p.setIntercept(func(op, _ string) outcome {
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
		p.setIntercept(nil)
		if err := held.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
