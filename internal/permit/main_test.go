package permit

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeStore is a store elsewhere, by the arithmetic that all stores share.
type fakeStore struct {
	driver.Unimplemented

	mu     sync.Mutex
	states map[string]*limits.State
	before func() // if set, is called before each Take
}

func (f *fakeStore) state(key string, l driver.Limit) *limits.State {
	name := key + " " + limits.Name(l)
	if f.states[name] == nil {
		f.states[name] = &limits.State{}
	}
	return f.states[name]
}

func (f *fakeStore) Take(_ context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if f.before != nil {
		f.before()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	taken, _ := f.state(key, l).TakeEach(l, time.Now().UnixMicro(), asks)
	return taken, nil
}

func (f *fakeStore) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(f.Take(ctx, key, l, []driver.Ask{a}))
}

func (f *fakeStore) Reset(_ context.Context, key string, l driver.Limit) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.states, key+" "+limits.Name(l))
	return nil
}

func (f *fakeStore) Refund(_ context.Context, key string, l driver.Limit, id string, n int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state(key, l).Refund(l, time.Now().UnixMicro(), id, n)
	return nil
}

// newPool makes a pool over a fakeStore, which is closed with the test. A nil rule prefetches nothing.
func newPool(t testing.TB, rule *Rule) (*Pool, *fakeStore) {
	t.Helper()
	f := &fakeStore{states: make(map[string]*limits.State)}
	var policy *Policy
	if rule != nil {
		var err error
		if policy, err = policy.With(*rule, nil); err != nil {
			t.Fatal(err)
		}
	}
	p := New(Config{
		Store: Store{Limiter: f, Refunds: true},
		Info:  driver.Info{Name: "fake", Claims: driver.Claims{driver.ScopeHosts, driver.Reserve}},
		Clock: clock.New(),
		NewID: func() string { return time.Now().String() },
	}, policy)
	t.Cleanup(func() {
		p.Stop()
		p.GiveBack(context.Background())
		p.Wait()
	})
	return p, f
}

// demand is n permits of l under key.
func demand(t testing.TB, key string, l driver.Limit, n int) *driver.Demand {
	t.Helper()
	normal, err := l.Normal()
	if err != nil {
		t.Fatal(err)
	}
	return &driver.Demand{Key: key, Limit: normal, N: n}
}

// take takes n permits, or none.
func take(t testing.TB, p *Pool, key string, l driver.Limit, n int) (r Result) {
	t.Helper()
	return takeAtLeast(t, p, key, l, n, n)
}

func takeAtLeast(t testing.TB, p *Pool, key string, l driver.Limit, least, n int) (r Result) {
	t.Helper()
	if _, err := p.Take(t.Context(), &r, demand(t, key, l, n), driver.Ask{Min: least, N: n}); err != nil {
		t.Fatal(err)
	}
	return r
}

var (
	ten  = driver.Limit{Rate: 10, Per: time.Second}
	hour = driver.Limit{Rate: 1, Per: time.Hour}
)
