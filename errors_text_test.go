package coord

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// An error says what has happened in the terms of the caller, and matches what it is.
func TestErrorSaysWhatHappened(t *testing.T) {
	for name, tt := range map[string]struct {
		cause   func(t *testing.T, c *Client) error
		text    string
		matches []error
	}{
		"WaitAtMost is over": {
			func(t *testing.T, c *Client) error {
				must[*Lock](t)(c.Lock(t.Context(), "k"))
				_, err := c.Lock(t.Context(), "k", WaitAtMost(time.Second))
				return err
			}, `: WaitAtMost is over`, []error{ErrLocked, context.DeadlineExceeded},
		},
		"WaitAtMost is over at a store that another client locked": {
			func(t *testing.T, c *Client) error {
				must[*Lock](t)(newTestClient(t, c.backend).Lock(t.Context(), "k"))
				_, err := c.Lock(t.Context(), "k", WaitAtMost(time.Second))
				return err
			}, `: WaitAtMost is over`, []error{ErrLocked, context.DeadlineExceeded},
		},
		"another process holds the key": {
			func(t *testing.T, c *Client) error {
				lockedElsewhere(c)
				_, err := c.TryLock(t.Context(), "k")
				return err
			}, `coord: trylock "k" on fake: locked by web-1 (pid 4711) (retry after 1m0s)`, []error{ErrLocked},
		},
		"another process holds the key all the time": {
			func(t *testing.T, c *Client) error {
				lockedElsewhere(c)
				return Do(t.Context(), c, "k", func(context.Context) error { return nil }, WaitAtMost(10*time.Second))
			}, `coord: lock "k" on fake: locked by web-1 (pid 4711): WaitAtMost is over`, []error{ErrLocked, context.DeadlineExceeded},
		},
		"another client of this process holds the key": {
			func(t *testing.T, c *Client) error {
				other := newTestClient(t, c.backend)
				return Do(t.Context(), other, "k", func(ctx context.Context) error {
					return Do(ctx, c, "k", func(context.Context) error { return nil }, WaitAtMost(time.Second))
				})
			}, `held by another client of this process; only a lock of the client that took it enters it again: WaitAtMost is over`, []error{ErrLocked, context.DeadlineExceeded},
		},
		"a try, where another client of this process holds the key": {
			func(t *testing.T, c *Client) error {
				must[*Lock](t)(newTestClient(t, c.backend).Lock(t.Context(), "k"))
				_, err := c.TryLock(t.Context(), "k")
				return err
			}, `only a lock of the client that took it enters it again (retry after 30s)`, []error{ErrLocked},
		},
		"a hold of this client that the store has and the client gave up": {
			func(t *testing.T, c *Client) error {
				must[*Lock](t)(c.Lock(t.Context(), "k", HolderName("me")))
				c.locks.LossPushed("k", c.backend.(*fakeStore).leases["k"].id, errWire)
				_, err := c.TryLock(t.Context(), "k")
				return err
			}, fmt.Sprintf(`: locked by me (pid %d) (retry after 30s)`, pid), []error{ErrLocked},
		},
		"WaitAtMost of several keys is over": {
			func(t *testing.T, c *Client) error {
				return DoAll(t.Context(), slowLocker{c}, []string{"a", "b"}, func(context.Context) error { return nil }, WaitAtMost(time.Second))
			}, `: WaitAtMost is over`, []error{ErrLocked, context.DeadlineExceeded},
		},
		"the caller's own deadline": {
			func(t *testing.T, c *Client) error {
				must[*Lock](t)(c.Lock(t.Context(), "k"))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := c.Lock(ctx, "k", WaitAtMost(time.Minute))
				return err
			}, `: context deadline exceeded`, []error{ErrLocked, context.DeadlineExceeded},
		},
		"unlocked twice": {
			func(t *testing.T, c *Client) error {
				l := must[*Lock](t)(c.Lock(t.Context(), "k"))
				if err := l.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
				return l.Unlock(t.Context())
			}, `coord: unlock "k" on fake: this lock was unlocked before`, []error{ErrNotHeld},
		},
		"closed": {
			func(t *testing.T, c *Client) error {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				_, err := c.Lock(t.Context(), "k")
				return err
			}, `coord: lock "k" on fake: the client was closed`, []error{ErrClosed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := tt.cause(t, newTestClient(t, newFake()))
				wantErr(t, err, tt.matches...)
				if err == nil || !strings.HasSuffix(err.Error(), tt.text) {
					t.Errorf("saw %v, want …%s", err, tt.text)
				}
				if errors.Is(err, ErrLost) {
					t.Errorf("%v is ErrLost: nothing was lost", err)
				}
			})
		})
	}
}

// lockedElsewhere has another process hold "k" for a minute.
func lockedElsewhere(c *Client) {
	f := c.backend.(*fakeStore)
	id := driver.FormatID("web-1", 4711, time.Now(), [16]byte{})
	f.leases["k"] = &fakeLease{id: id, token: 1, end: time.Now().Add(time.Minute)}
}

// A store with a queue says who is in the way when the wait begins: at its end that may be another.
func TestErrorOfAQueueTellsItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, &blindQueue{f})
		f.leases["k"] = &fakeLease{id: driver.FormatID("web-1", 4711, time.Now(), [16]byte{}), token: 1, end: time.Now().Add(time.Minute)}
		_, err := c.Lock(t.Context(), "k", WaitAtMost(10*time.Second))
		wantErr(t, err, ErrLocked)
		if want := `locked by web-1 (pid 4711), as of 10s ago: WaitAtMost is over`; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("saw %v, want …%s", err, want)
		}
	})
}

// blindQueue is a store with a queue, in which nobody is granted anything.
type blindQueue struct{ *fakeStore }

func (f *blindQueue) Info() driver.Info { return claiming(f.fakeStore, driver.Fair) }

func (q *blindQueue) Lock(ctx context.Context, _ string, _ driver.Request, waits func()) (driver.Grant, error) {
	waits()
	<-ctx.Done()
	return driver.Grant{}, ctx.Err()
}

// Who asks for a key that is only kept taken is told of nobody; ids that are not coord's are shown as they are.
func TestLockedErrorNamesTheHolder(t *testing.T) {
	for id, want := range map[string]string{
		"": "locked by another holder",
		driver.FormatID("a/b", 1, time.Now(), [16]byte{}): "locked by a/b (pid 1)",
		"x": `locked by "x"`,
	} {
		if got := (&driver.LockedError{Holder: id}).Error(); got != want {
			t.Errorf("%q: saw %q, want %q", id, got, want)
		}
	}
}

// No two clients, and nothing that another program wrote, are taken for one another.
// A number without a unit is taken for seconds, if it may have been meant so.
func TestErrorOfADurationBelowAMillisecond(t *testing.T) {
	c := newTestClient(t, newFake())
	for d, want := range map[time.Duration]string{
		30:     "TTL of 30ns: want at least 1ms; did you mean 30*time.Second?",
		3600:   "TTL of 3.6µs: want at least 1ms; did you mean 3600*time.Second?",
		656115: "TTL of 656.115µs: want at least 1ms",
	} {
		if _, err := c.TryLock(t.Context(), "k", TTL(d)); !errors.Is(err, ErrInvalid) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestIDsTellClientsApart(t *testing.T) {
	a, b := newIDs(), newIDs()
	foreign := driver.FormatID("h", 1, time.Now(), [16]byte{1})
	for id, want := range map[string]bool{b.next("h"): true, b.next("h" + asLeader): true, a.next("h"): false, foreign: false, "": false, strings.Repeat("x", 64): false} {
		if got := a.beside(id); got != want {
			t.Errorf("%q is of another client of this process: %v, want %v", id, got, want)
		}
	}
}

// slowLocker takes more than a second for a lock.
type slowLocker struct{ *Client }

func (s slowLocker) Lock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	l, err := s.Client.Lock(ctx, key, opts...)
	time.Sleep(1500 * time.Millisecond)
	return l, err
}
