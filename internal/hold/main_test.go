package hold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/host"
	"github.com/coordgo/coord/internal/partition"
	"github.com/coordgo/coord/internal/trace"
	"github.com/coordgo/coord/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testTTL = 30 * time.Second

var errWire = errors.New("connection reset")

// fakeStore has locks that do not lapse.
type fakeStore struct {
	driver.Unimplemented

	mu       sync.Mutex
	holders  map[string]string // id by key
	token    int64             // the last one
	tokens   map[string]int64  // by id
	renewals int
	broken   bool // no call has an answer
	hung     chan struct{}
}

func (f *fakeStore) Info() driver.Info { return driver.Info{Name: "fake"} }
func (f *fakeStore) Close() error      { return nil }

func (f *fakeStore) do(op func() error) error {
	if f.hung != nil {
		<-f.hung
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken {
		return errWire
	}
	return op()
}

func (f *fakeStore) TryLock(_ context.Context, key string, r driver.Request) (g driver.Grant, err error) {
	err = f.do(func() error {
		if f.holders[key] != "" {
			return driver.ErrLocked
		}
		f.holders[key] = r.ID
		f.token++
		f.tokens[r.ID] = f.token
		g = driver.Grant{Token: f.token, TTL: r.TTL}
		return nil
	})
	return g, err
}

func (f *fakeStore) Renew(_ context.Context, key string, r driver.Request) (g driver.Grant, err error) {
	err = f.do(func() error {
		if f.holders[key] != r.ID {
			return driver.ErrNotHeld
		}
		f.renewals++
		g = driver.Grant{Token: f.tokens[r.ID], TTL: r.TTL}
		return nil
	})
	return g, err
}

func (f *fakeStore) Unlock(_ context.Context, key, id string) error {
	return f.do(func() error {
		if f.holders[key] != id {
			return driver.ErrNotHeld
		}
		delete(f.holders, key)
		return nil
	})
}

func (f *fakeStore) setBroken(broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = broken
}

func (f *fakeStore) renewed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.renewals
}

// newManager makes a Manager that is closed with the test, and has then nothing left.
func newManager(t testing.TB, f *fakeStore) *Manager {
	f.holders, f.tokens = make(map[string]string), make(map[string]int64)
	log := slog.New(slog.DiscardHandler)
	ids := 0
	m := New(Config{
		Store:  Store{Locker: f, Parts: partition.New(f)},
		Clock:  clock.New(),
		Log:    log,
		NewID:  func(string) string { ids++; return fmt.Sprint("id", ids) },
		Jitter: host.Random,
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		m.Stop()
		m.GiveBack(ctx)
		m.CleanUp(ctx)
		m.Wait()
	})
	return m
}

// lock takes key "k" for a while at most, 0: without a bound.
func lock(t testing.TB, m *Manager, maxHold time.Duration, w *trace.Lock) *Tenure {
	return lockAs(t, m, Spec{Name: "k", Key: "k", Lease: testTTL, MaxHold: maxHold, Owner: nobody{}}, w)
}

func lockAs(t testing.TB, m *Manager, s Spec, w *trace.Lock) *Tenure {
	tenure, err := new(Attempt).Run(t.Context(), m, s, false, w)
	if err != nil {
		t.Error(err)
	}
	return tenure
}

type nobody struct{}

func (nobody) String() string { return "nobody" }

// another starts a lock that has to wait, and gives what it is granted.
func another(t testing.TB, m *Manager, w *trace.Lock) <-chan *Tenure {
	got := make(chan *Tenure, 1)
	go func() { got <- lock(t, m, 0, w) }()
	synctest.Wait()
	return got
}

func release(t testing.TB, tenure *Tenure) {
	t.Helper()
	if err := tenure.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

// wantNothing checks that m has nothing left.
func wantNothing(t testing.TB, m *Manager) {
	t.Helper()
	if left := m.Stats(); left != (Stats{}) {
		t.Errorf("left behind: %+v", left)
	}
}

func wantErr(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("error %v: want it to be %q", err, target)
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// traced gives the trace of an attempt, of which o is told.
func traced(t testing.TB, o observe.Observer) *trace.Lock {
	c := &trace.Client{Clock: clock.New(), Log: slog.New(slog.DiscardHandler)}
	c.Observe([]observe.Observer{o})
	_, w := c.Lock(t.Context(), "lock", observe.Lock{Key: "k"})
	return w
}
