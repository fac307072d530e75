package coord

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

// slowLocker takes more than a second for a lock.
type slowLocker struct{ *Client }

func (s slowLocker) Lock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	l, err := s.Client.Lock(ctx, key, opts...)
	time.Sleep(1500 * time.Millisecond)
	return l, err
}
