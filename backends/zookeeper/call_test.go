package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// Whatever callers leave early, nobody gets the answer to another's request.
func TestCallsAreNotMixedUp(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	var wg sync.WaitGroup
	for w := range 12 {
		wg.Go(func() {
			key := fmt.Sprint("k", w)
			for range 60 {
				r := request("a", testSession)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(2_000))*time.Microsecond)
				_, err := b.TryLock(ctx, key, r)
				cancel()
				switch {
				case err == nil:
					b.mu.Lock()
					e := b.entries[holdName{key: key, id: r.ID}]
					if e == nil || !strings.HasPrefix(e.node, b.lockDir(key)+"/1-"+tagOf(r.ID)) {
						t.Errorf("%s is held by %+v", key, e)
					}
					b.mu.Unlock()
				case !errors.Is(err, driver.ErrLocked) && !errors.Is(err, context.DeadlineExceeded):
					t.Error(err)
				}
				err = b.Unlock(t.Context(), key, r.ID)
				if err != nil && !errors.Is(err, driver.ErrNotHeld) {
					t.Error(err)
				}
			}
			r := request("last", testSession)
			eventually(t, "what was left to be removed", func() bool {
				_, err := b.TryLock(t.Context(), key, r)
				return err == nil
			})
			if err := b.Unlock(t.Context(), key, r.ID); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	eventually(t, "the entries to be forgotten", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.entries) == 0
	})
}

// A hold that is over when its timer fires late, or that another hold of the same id has followed, is left alone.
func TestTimerThatFiresLate(t *testing.T) {
	_, b := open(t)
	r := request("a", testSession)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	b.mu.Lock()
	e := b.entries[holdName{key: "k", id: r.ID}]
	b.mu.Unlock()
	if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Fatal(err)
	}
	e.due()
	g := must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	e.due()
	if again, err := b.Renew(t.Context(), "k", r); err != nil || again.Token != g.Token {
		t.Errorf("the hold after: %+v, %v, want token %d", again, err, g.Token)
	}
}

func TestPlainKeys(t *testing.T) {
	for key, want := range map[string]string{
		"tickets": "tickets", "a b~!": "a b~!", "": "", "a.b": "a.b",
		".a": "%2Ea", "a/b": "a%2Fb", "a%b": "a%25b", "a:b": "a%3Ab", "a\x1fb": "a%1Fb", "a\x7fb": "a%7Fb", "é": "é",
	} {
		if got := escape(key); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
}
