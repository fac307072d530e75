package coord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/hold"
)

// fakeStore is a store whose every call a test can fail, delay or lose.
type fakeStore struct {
	driver.Unimplemented

	mu     sync.Mutex
	leases map[string]*fakeLease
	token  int64
	calls  []string // "trylock key", in order
	closed bool
	info   driver.Info
	asked  driver.Request // the last that TryLock was called with

	// intercept, if set, decides what becomes of a call.
	intercept func(op, key string) outcome
}

type fakeLease struct {
	id    string
	token int64
	end   time.Time
}

// outcome is what becomes of a call: nothing special, or err before or after it
// took effect, or no answer at all until ctx ends, or the answer once late is closed.
type outcome struct {
	late          chan struct{}
	before, after error
	hang          bool
	hangAfter     bool
}

var errWire = errors.New("connection reset")

// What the engine of locks promises of its times.
const (
	cleanUpGrace   = time.Minute            // how long it still asks a store that does not answer
	cleanUpPause   = time.Second            // between two tries, at most
	unlockBound    = 2 * time.Second        // of one Unlock
	unlockTry      = 500 * time.Millisecond // of one call of it
	pollPause      = 40 * time.Millisecond  // between two polls, at most
	handOverWindow = 50 * time.Millisecond  // after the store's grant
	maxHandOvers   = 1<<hold.SeqBits - 1    // of one hold
)

func newFake() *fakeStore {
	return &fakeStore{
		leases: make(map[string]*fakeLease),
		info:   driver.Info{Name: "fake", MinTTL: 10 * time.Millisecond, TTLStep: time.Millisecond, MaxTTL: time.Hour, Claims: driver.Claims{driver.PerHoldTTL}},
	}
}

func (f *fakeStore) Info() driver.Info { return f.info }

// claiming is Info of b with more claims.
func claiming(b driver.Backend, more ...driver.Claim) driver.Info {
	info := b.Info()
	info.Claims = append(slices.Clip(info.Claims), more...)
	return info
}

func (f *fakeStore) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

// do runs apply under the outcome that the test wants.
func (f *fakeStore) do(ctx context.Context, op, key string, apply func() error) error {
	f.mu.Lock()
	f.calls = append(f.calls, op+" "+key)
	intercept := f.intercept
	f.mu.Unlock()
	var o outcome
	if intercept != nil {
		o = intercept(op, key)
	}
	if o.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if o.before != nil {
		return o.before
	}
	f.mu.Lock()
	err := apply()
	f.mu.Unlock()
	if o.late != nil {
		<-o.late
	}
	if o.hangAfter {
		<-ctx.Done()
		return ctx.Err()
	}
	if o.after != nil {
		return o.after
	}
	return err
}

func (f *fakeStore) live(key string) *fakeLease {
	if l := f.leases[key]; l != nil && time.Now().Before(l.end) {
		return l
	}
	return nil
}

func (f *fakeStore) TryLock(ctx context.Context, key string, r driver.Request) (g driver.Grant, err error) {
	f.mu.Lock()
	f.asked = r
	f.mu.Unlock()
	err = f.do(ctx, "trylock", key, func() error {
		l := f.live(key)
		switch {
		case l == nil:
			f.token++
			l = &fakeLease{id: r.ID, token: f.token, end: time.Now().Add(r.TTL)}
			f.leases[key] = l
			g = driver.Grant{Token: l.token, TTL: r.TTL}
			return nil
		case l.id != r.ID:
			return &driver.LockedError{Remaining: time.Until(l.end), Holder: l.id}
		}
		g = driver.Grant{Token: l.token, TTL: time.Until(l.end)}
		return nil
	})
	return g, err
}

func (f *fakeStore) Renew(ctx context.Context, key string, r driver.Request) (g driver.Grant, err error) {
	err = f.do(ctx, "renew", key, func() error {
		l := f.live(key)
		if l == nil || l.id != r.ID {
			return driver.ErrNotHeld
		}
		if end := time.Now().Add(r.TTL); end.After(l.end) {
			l.end = end
		}
		g = driver.Grant{Token: l.token, TTL: time.Until(l.end)}
		return nil
	})
	return g, err
}

func (f *fakeStore) Unlock(ctx context.Context, key, id string) error {
	return f.do(ctx, "unlock", key, func() error {
		l := f.live(key)
		if l == nil || l.id != id {
			return driver.ErrNotHeld
		}
		delete(f.leases, key)
		return nil
	})
}

func (f *fakeStore) setIntercept(fn func(op, key string) outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.intercept = fn
}

// count says how often op was called.
func (f *fakeStore) count(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.calls {
		if strings.HasPrefix(c, op+" ") {
			n++
		}
	}
	return n
}

func (f *fakeStore) freeAt(key string) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.leases[key]; l != nil {
		return l.end
	}
	return time.Time{}
}

func (f *fakeStore) held(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live(key) != nil
}

// logBuffer collects what the client logs.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newTestClient makes a client that is closed with the test.
func newTestClient(t testing.TB, b driver.Backend, opts ...Option) *Client {
	t.Helper()
	c, err := New(b, append([]Option{WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func wantErr(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %v: want it to be %q", err, fmt.Sprint(target))
		}
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
