package cas_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

// permit is a request for one of 64 permits.
func permit(i int, ttl time.Duration) driver.Request {
	return driver.Request{
		ID: fmt.Sprintf("a@host/1/1/%032x", i), TTL: ttl,
		Share: driver.Share{Mode: driver.Permits, Weight: 1, Of: cas.MaxHolders},
	}
}

func mustHold(t *testing.T, l driver.SharedLocker, key string, r driver.Request) driver.Grant {
	t.Helper()
	g, err := l.TryLock(t.Context(), key, r)
	if err != nil {
		t.Fatalf("%s: %v", r.ID, err)
	}
	return g
}

// The holds of one key are renewed by one change, and each has its own answer.
func TestRenewAll(t *testing.T) {
	eachForm(t, func(t *testing.T, s *shelf, b *cas.Backend) {
		l := b.Shared()
		var batch []driver.Hold
		var granted []driver.Grant
		for i := range 40 {
			h := driver.Hold{Key: []string{"a", "b"}[i%2], Request: permit(i, time.Second)}
			granted = append(granted, mustHold(t, l, h.Key, h.Request))
			batch = append(batch, h)
		}
		lost := driver.Hold{Key: "a", Request: permit(98, time.Second)}
		bad := driver.Hold{Key: "b", Request: permit(99, 0)}
		batch = append(batch, lost, bad)
		s.pass(300 * time.Millisecond)
		renew := func() []driver.Renewal { return l.RenewAll(t.Context(), batch) }
		before := s.writes
		answers := renew()
		if made := s.writes - before; made != 2 {
			t.Errorf("%d holds of two keys were renewed by %d changes", len(batch), made)
		}
		for i, want := range granted {
			if a := answers[i]; a.Err != nil || a.Grant.Token != want.Token || a.Grant.TTL != time.Second {
				t.Errorf("hold %d: %+v, want token %d", i, a, want.Token)
			}
		}
		if err := answers[40].Err; !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("a hold that is not: %v", err)
		}
		if err := answers[41].Err; !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("a TTL of 0: %v", err)
		}
		// An unknown outcome is that of each.
		s.pass(300 * time.Millisecond)
		s.plan(func(step string) error {
			if step == "after" {
				return errNetwork
			}
			return nil
		})
		for i, a := range renew()[:41] {
			if !errors.Is(a.Err, errNetwork) || a.Grant != (driver.Grant{}) {
				t.Errorf("hold %d, whose reply was lost: %+v", i, a)
			}
		}
		// A panic comes to the goroutine that renews, which recovers from it.
		s.plan(func(string) error { panic("a bug") })
		func() {
			defer func() {
				if p := recover(); p != "a bug" {
					t.Errorf("recovered %v", p)
				}
			}()
			renew()
		}()
	})
}

// far is a store whose clock runs, and which is a round trip of about so long away.
type far struct {
	*shelf
	trip time.Duration
}

func (f far) travel() { time.Sleep(f.trip/4 + rand.N(f.trip/2)) }

func (f far) Load(ctx context.Context, n cas.Name) (cas.Loaded[int], error) {
	f.travel()
	defer f.travel()
	l, err := f.shelf.Load(ctx, n)
	l.Now = time.Now()
	return l, err
}

func (f far) CompareAndSwap(ctx context.Context, n cas.Name, loaded int, c cas.Change) (bool, error) {
	f.travel()
	defer f.travel()
	return f.shelf.CompareAndSwap(ctx, n, loaded, c)
}

// crowd has so many clients hold a permit each of one key, and renew them all at the same time, for a TTL of eight round trips
// for each of them, and half a second at least. None loses its hold.
func crowd(t *testing.T, clients int, trip time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := far{newShelf(), trip}
		ttl := max(8*time.Duration(clients)*trip, time.Second/2)
		var mu sync.Mutex
		var slowest time.Duration
		var wg sync.WaitGroup
		for i := range clients {
			wg.Go(func() {
				l, r := cas.New(info, cas.Optimistic(s)).Shared(), permit(i, ttl)
				sent := time.Now()
				if _, err := l.TryLock(t.Context(), "k", r); err != nil {
					t.Error(err)
					return
				}
				for range 10 {
					time.Sleep(time.Until(sent.Add(ttl / 3)))
					sent = time.Now()
					_, err := l.Renew(t.Context(), "k", r)
					took := time.Since(sent)
					mu.Lock()
					slowest = max(slowest, took)
					mu.Unlock()
					if err != nil || took > ttl*2/3 {
						t.Errorf("a renewal of a hold of %v: %v after %v", ttl, err, took)
						return
					}
				}
			})
		}
		wg.Wait()
		t.Logf("%d clients, %v away, TTL %v: %d reads for %d changes, the slowest renewal took %v",
			clients, trip, ttl, s.loads, s.writes, slowest)
	})
}

func TestCrowdOfHolders(t *testing.T) { crowd(t, 16, 5*time.Millisecond) }

func TestNightlyCrowdOfHolders(t *testing.T) {
	for _, trip := range []time.Duration{time.Millisecond / 5, time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond} {
		crowd(t, cas.MaxHolders, trip)
	}
}
