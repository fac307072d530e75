package coord

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// refusingStore is a store whose key is taken, and which refuses its user when it is asked for a place in the queue.
type refusingStore struct {
	*fakeStore
	before time.Duration // it refuses
	says   error
}

func (f *refusingStore) Info() driver.Info { return claiming(f.fakeStore, driver.Fair) }

var errWrongUser = errors.New("wrong user or password")

func (r *refusingStore) Lock(ctx context.Context, key string, _ driver.Request, _ func()) (driver.Grant, error) {
	time.Sleep(r.before)
	return driver.Grant{}, r.do(ctx, "lock", key, func() error { return r.says })
}

// refusingLater is one that refuses who is in its queue.
type refusingLater struct{ *refusingStore }

func (r refusingLater) Lock(ctx context.Context, key string, q driver.Request, waits func()) (driver.Grant, error) {
	waits()
	return r.refusingStore.Lock(ctx, key, q, waits)
}

// A wait ends when the store has refused its user for one TTL, however long it takes the store to say so, and asks less and less.
// A refusal by a store that has kept it waiting for longer is the end.
func TestWaitEndsWhenItsUserIsRefused(t *testing.T) {
	const ttl = 30 * time.Second
	for name, c := range map[string]struct {
		store  func(*refusingStore) driver.Backend
		says   error
		before time.Duration
		within time.Duration
		most   int
	}{
		"slow log-ins":  {func(r *refusingStore) driver.Backend { return r }, driver.NotSent(errWrongUser), 500 * time.Millisecond, ttl + 2*time.Second, 40},
		"quick log-ins": {func(r *refusingStore) driver.Backend { return r }, driver.NotSent(errWrongUser), time.Millisecond, ttl + 2*time.Second, 50},
		"slow, and it may have reached the store": {func(r *refusingStore) driver.Backend { return r }, errWrongUser, 60 * time.Millisecond, ttl + 2*time.Second, 50},
		"refused in the line":                     {func(r *refusingStore) driver.Backend { return refusingLater{r} }, driver.NotSent(errWrongUser), time.Hour, time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &refusingStore{fakeStore: newFake(), before: c.before, says: c.says}
				other := newTestClient(t, r.fakeStore)
				must[*Lock](t)(other.Lock(t.Context(), "k"))
				client := newTestClient(t, c.store(r))
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				began := time.Now()
				_, err := client.Lock(ctx, "k", TTL(ttl))
				wantErr(t, err, ErrUnavailable, errWrongUser)
				if took := time.Since(began); took > c.within {
					t.Errorf("it ended after %v, want %v at most", took, c.within)
				}
				if n := r.count("lock"); n > c.most {
					t.Errorf("the store was asked %d times, want %d at most", n, c.most)
				}
			})
		})
	}
}
