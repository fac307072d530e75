package coord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

func TestInvalidOptions(t *testing.T) {
	for _, tc := range []struct {
		name string
		opt  Option
		want error
		text string
	}{
		{"prefix not UTF-8", WithPrefix("\xff"), ErrInvalid, "want at most 256 bytes of UTF-8"},
		{"prefix with NUL", WithPrefix("a\x00"), ErrInvalid, "without NUL"},
		{"long prefix", WithPrefix(strings.Repeat("p", 257)), ErrInvalid, "want at most 256 bytes of UTF-8"},
		{"nil logger", WithLogger(nil), ErrInvalid, "nil logger"},
		{"empty name", WithHolderName(""), ErrInvalid, "1 to 64 bytes"},
		{"name with space", WithHolderName("a b"), ErrInvalid, "1 to 64 bytes"},
		{"long name", WithHolderName(strings.Repeat("n", 65)), ErrInvalid, "1 to 64 bytes"},
		{"policy", WithFailurePolicy(7), ErrInvalid, "want FailClosed or FailOpen"},
		{"unknown claim", WithRequired("best"), ErrInvalid, `claim "best": want one of`},
		{"missing claim", WithRequired(driver.Fair), ErrUnsupported, "does not claim fair, which is required; it claims per-hold-ttl"},
		{"floor", WithTokenFloor(-1), ErrInvalid, "token floor -1"},
		{"default TTL", WithLockDefaults(TTL(0)), ErrInvalid, "TTL 0s"},
		{"default TTL too long", WithLockDefaults(TTL(2 * time.Hour)), ErrInvalid, "at most 1h0m0s"},
		{"default fair", WithLockDefaults(Fair()), ErrUnsupported, "does not claim"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := New(newFake(), tc.opt)
			wantErr(t, err, tc.want)
			if c != nil || err == nil || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("client %v, error %v: want it to say %q", c, err, tc.text)
			}
		})
	}
	_, err := New(nil)
	wantErr(t, err, ErrInvalid)
}

func TestOptionsTakeEffect(t *testing.T) {
	f := newFake()
	c := newTestClient(t, f,
		WithPrefix("app:"), WithHolderName("node-7"), WithTokenFloor(5000),
		WithLockDefaults(TTL(7*time.Second), WaitAtMost(time.Second)), WithRequired(driver.PerHoldTTL))
	l := must[*Lock](t)(c.TryLock(t.Context(), "k")) // a default wait is no mistake of TryLock's
	if !f.held("app:k") || l.Key() != "k" {
		t.Errorf("stored under %v, Key %q", f.leases, l.Key())
	}
	name, _, _, err := driver.ParseID(f.leases["app:k"].id)
	if err != nil || name != "node-7" {
		t.Errorf("holder name %q, %v", name, err)
	}
	if l.Token() <= 5000 || l.TTL() != 7*time.Second {
		t.Errorf("token %d, TTL %v", l.Token(), l.TTL())
	}
	if c.Info().Name != "fake" {
		t.Errorf("info %+v", c.Info())
	}
}

func TestKeyIsInjective(t *testing.T) {
	seen := map[string][]string{}
	parts := []string{"", "a", "b", "/", "a/b", "%", "%2F", "a%2Fb", "é", " "}
	for _, a := range parts {
		for _, b := range parts {
			for _, key := range [][]string{{a, b}, {a, b, ""}, {a, b, "c"}} {
				k := Key(key...)
				if other, ok := seen[k]; ok {
					t.Errorf("Key(%q) and Key(%q) are both %q", key, other, k)
				}
				seen[k] = key
			}
		}
	}
	if Key("a/b", "c") != "a%2Fb/c" {
		t.Error(Key("a/b", "c"))
	}
}

func FuzzKey(f *testing.F) {
	f.Add("a/b", "c", "a", "b/c")
	f.Add("%", "2F", "%2F", "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if (Key(a, b) == Key(c, d)) != (a == c && b == d) {
			t.Errorf("Key(%q,%q) = %q, Key(%q,%q) = %q", a, b, Key(a, b), c, d, Key(c, d))
		}
	})
}

func TestTokenInJSON(t *testing.T) {
	b, err := json.Marshal(Token(1<<62 + 1))
	if string(b) != `"4611686018427387905"` || err != nil {
		t.Errorf("JSON %s, %v", b, err)
	}
	var back Token
	if err := json.Unmarshal(b, &back); err != nil || back != 1<<62+1 {
		t.Errorf("back from JSON: %d, %v", back, err)
	}
	wantErr(t, json.Unmarshal([]byte(`"x"`), &back), ErrInvalid)
}

// A store whose fencing value does not fit is refused, and the hold given back.
func TestTokenOutOfRange(t *testing.T) {
	f := newFake()
	f.token = 1<<53 - 1 // the greatest that fits
	c := newTestClient(t, f)
	_, err := c.TryLock(t.Context(), "k")
	wantErr(t, err, ErrUnsupported)
}

func TestGuard(t *testing.T) {
	var g Guard
	for i, tc := range []struct {
		key   string
		token Token
		want  error
	}{
		{"k", 5, nil},
		{"k", 5, nil},
		{"k", 4, ErrLost},
		{"k", 6, nil},
		{"k", 5, ErrLost},
		{"other", 1, nil},
		{"k", 0, ErrInvalid},
		{"k", -1, ErrInvalid},
	} {
		if err := g.Check(tc.key, tc.token); !errors.Is(err, tc.want) || (tc.want == nil) != (err == nil) {
			t.Errorf("check %d: %v: want %v", i, err, tc.want)
		}
	}
	ran := false
	wantErr(t, g.Do("k", 1, func() error { ran = true; return nil }), ErrLost)
	if ran {
		t.Error("a stale write ran")
	}
}

// Writes of one key come one after the other; one of another key waits for none of them.
func TestGuardOfSeveralKeys(t *testing.T) {
	var g Guard
	done := make(chan error, 1)
	inside, writes := 0, 0
	go func() {
		done <- g.Do("slow", 1, func() error {
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					err := g.Do("k", 1, func() error {
						inside++ // guarded by the key alone
						runtime.Gosched()
						if inside--; inside != 0 {
							t.Error("two writes of one key at once")
						}
						writes++
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			return g.CheckRead("k", 2)
		})
	}()
	select {
	case err := <-done:
		if err != nil || writes != 8 {
			t.Errorf("%d writes: %v: want 8", writes, err)
		}
	case <-time.After(time.Minute):
		t.Fatal("a write of one key waits for that of another")
	}
}

// registered counts the schemes of tests: one is registered for as long as the process lives.
var registered atomic.Int64

// registerHere registers a scheme of this test's own.
func registerHere(open driver.OpenFunc) (scheme string) {
	scheme = fmt.Sprintf("test%d", registered.Add(1))
	driver.Register(scheme, open)
	return scheme
}

func TestOpen(t *testing.T) {
	var opened *url.URL
	scheme := registerHere(func(_ context.Context, u *url.URL) (driver.Backend, error) {
		opened = u
		if u.Host == "down" {
			return nil, driver.NotSent(errWire)
		}
		return newFake(), nil
	})
	c, err := Open(t.Context(), scheme+"://u:secret@host/path?prefix=app%3A&x=1", WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.prefix != "app:" || opened.RawQuery != "x=1" {
		t.Errorf("prefix %q, the backend saw %q", c.prefix, opened.RawQuery)
	}
	for _, tc := range []struct {
		url  string
		want string
		is   error
	}{
		{"nostore://u:secret@x", `coord: open nostore://xxxxx@x: invalid argument: store URL: scheme "nostore" is not registered: import`, ErrInvalid},
		{"", "coord: open xxxxx: invalid argument: store URL: it is empty: want a form like", ErrInvalid},
		{scheme + "://u:secret@down", "coord: open " + scheme + "://xxxxx@down: store unavailable: " + errWire.Error(), ErrUnavailable},
		{scheme + "://h?prefix=%ff", "prefix", ErrInvalid},
	} {
		_, err := Open(t.Context(), tc.url)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q): %v: want %q and no password", tc.url, err, tc.want)
		}
		wantErr(t, err, tc.is)
	}
}

func TestErrorText(t *testing.T) {
	e := &Error{Op: "lock", Backend: "redis", Key: "a b", RetryAfter: time.Second + 345*time.Microsecond, Err: errs.Chain(ErrLocked, context.DeadlineExceeded)}
	if got, want := e.Error(), `coord: lock "a b" on redis: locked by another holder: context deadline exceeded (retry after 1s)`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestSplit(t *testing.T) {
	locks, lim := newFake(), newFakeLimits()
	locks.info.Name, lim.info.Name = "a", "b"
	locks.info.Claims = driver.Claims{driver.Inspect, driver.ScopeHosts}
	lim.info.Claims = driver.Claims{driver.Fair, driver.Reserve, driver.ScopeMachine}
	c := newTestClient(t, driver.Split(locks, lim))
	must[*Lock](t)(c.Lock(t.Context(), "k"))
	must[Result](t)(c.Allow(t.Context(), "k", ten))
	if locks.count("trylock") != 1 || lim.count("take") != 1 || lim.count("trylock") != 0 {
		t.Errorf("locks saw %v, limits saw %v", locks.calls, lim.calls)
	}
	info := c.Info()
	if info.Name != "a+b" || len(info.Claims) != 3 || len(info.Claims.Missing(driver.Inspect, driver.Reserve, driver.ScopeMachine)) != 0 {
		t.Errorf("info %+v", info)
	}
	if err := c.Close(); err != nil || !locks.closed || !lim.closed {
		t.Errorf("Close: %v, closed %v %v", err, locks.closed, lim.closed)
	}
}

// described is a store that tells of itself.
type described struct {
	*fakeStore
	settings map[string]string
	err      error
}

func (d described) Describe(context.Context) (map[string]string, error) { return d.settings, d.err }

// checked is a store that checks itself.
type checked struct {
	*fakeStore
	findings []driver.Finding
	err      error
}

func (c checked) Check(context.Context) ([]driver.Finding, error) { return c.findings, c.err }

func TestCheck(t *testing.T) {
	a := checked{fakeStore: newFake(), findings: []driver.Finding{{Level: driver.LevelWarn, Name: "disk", Text: "slow"}}}
	got, err := newTestClient(t, a).Check(t.Context())
	if err != nil || !slices.Equal(got, a.findings) {
		t.Errorf("found %v, %v, want %v", got, err, a.findings)
	}
	if got, err := newTestClient(t, newFake()).Check(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("a store that checks nothing: %v, %v", got, err)
	}
	a.info.Name = "a"
	got, err = newTestClient(t, driver.Split(a, newFakeLimits())).Check(t.Context())
	if err != nil || len(got) != 1 || got[0].Name != "a disk" {
		t.Errorf("of two stores: %v, %v", got, err)
	}
	c := newTestClient(t, checked{fakeStore: newFake(), err: errWire})
	if _, err := c.Check(t.Context()); !errors.Is(err, ErrUnavailable) || !errors.Is(err, errWire) {
		t.Errorf("a store that does not answer: %v, want ErrUnavailable", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Check(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}

func TestDescribe(t *testing.T) {
	a := described{fakeStore: newFake(), settings: map[string]string{"topology": "one"}}
	got, err := newTestClient(t, a).Describe(t.Context())
	if err != nil || len(got) != 1 || got["topology"] != "one" {
		t.Errorf("described as %v, %v", got, err)
	}
	if got, err := newTestClient(t, newFake()).Describe(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("a store that tells nothing is described as %v, %v", got, err)
	}
	a.info.Name = "a"
	got, err = newTestClient(t, driver.Split(a, newFakeLimits())).Describe(t.Context())
	if err != nil || len(got) != 1 || got["a topology"] != "one" {
		t.Errorf("two stores are described as %v, %v", got, err)
	}
	c := newTestClient(t, described{fakeStore: newFake(), err: errWire})
	if _, err := c.Describe(t.Context()); !errors.Is(err, ErrUnavailable) || !errors.Is(err, errWire) {
		t.Errorf("a store that does not answer: %v, want ErrUnavailable", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Describe(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}
