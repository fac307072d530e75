package coord

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// laterStore has a queue that serves nobody before a moment, which it tells.
type laterStore struct {
	*fakeStore
	serves time.Time
}

func (f *laterStore) Info() driver.Info { return claiming(f.fakeStore, driver.Fair) }

func (l *laterStore) Lock(ctx context.Context, key string, r driver.Request, _ func()) (driver.Grant, error) {
	if left := time.Until(l.serves); left > 0 {
		return driver.Grant{}, &driver.NotYetError{After: left, Err: driver.NotSent(errors.New("it has just started"))}
	}
	return l.TryLock(ctx, key, r)
}

// Who is in a store's queue when the store says that it serves in a while waits for that, though it is longer than an outage
// may last.
func TestQueueWaitsForAStoreThatSaysWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		held := must[*Lock](t)(newTestClient(t, store).Lock(t.Context(), "k"))
		later := &laterStore{store, time.Now().Add(10 * time.Minute)}
		waits := newTestClient(t, later)
		time.AfterFunc(time.Minute, func() {
			if err := held.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
		began := time.Now()
		_, err := waits.Lock(t.Context(), "k", WaitAtMost(11*time.Minute))
		if took := time.Since(began); err != nil || took < 10*time.Minute || took > 10*time.Minute+time.Second {
			t.Errorf("%v after %v, want a grant after 10m", err, took)
		}
	})
}
