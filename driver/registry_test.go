package driver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// registerTest registers the scheme "test" until the test ends.
func registerTest(t *testing.T, open OpenFunc) {
	t.Helper()
	Register("test", open)
	t.Cleanup(func() {
		registry.Lock()
		defer registry.Unlock()
		delete(registry.open, "test")
	})
}

func TestOpen(t *testing.T) {
	down := errors.New("connection refused")
	var opened *url.URL
	registerTest(t, func(_ context.Context, u *url.URL) (Backend, error) {
		opened = u
		switch u.Host {
		case "down":
			return nil, down
		case "refused":
			return nil, fmt.Errorf("dial: %w", NotSent(down))
		case "mistaken":
			return nil, ErrInvalid
		}
		return nil, nil
	})
	if _, prefix, err := Open(t.Context(), "test://u:secret@host/path?prefix=app%3A&x=1"); err != nil || prefix != "app:" || opened.RawQuery != "x=1" {
		t.Errorf("prefix %q, %v, the adapter saw %q", prefix, err, opened.RawQuery)
	}
	if !slices.Contains(Schemes(), "test") {
		t.Errorf("schemes %v", Schemes())
	}
	for _, tc := range []struct {
		url  string
		want string
		is   error
	}{
		{"nostore://u:secret@x", `store URL: scheme "nostore" is not registered: import the package of its store (registered: memory, test)`, ErrInvalid},
		{"rediss+cluster://u:secret@x,y", `scheme "rediss+cluster" is not registered: import _ "github.com/coordgo/coord/backends/redis" (registered: memory, test)`, ErrInvalid},
		{"tset://x", `scheme "tset" is not registered: did you mean test? (registered: memory, test)`, ErrInvalid},
		{"reddis://x", `scheme "reddis" is not registered: did you mean redis? Then import _ "github.com/coordgo/coord/backends/redis" (registered: memory, test)`, ErrInvalid},
		{"", "store URL: it is empty: want a form like", ErrInvalid},
		{"host:6379", "store URL: want a form like redis://host:6379/0", ErrInvalid},
		{"test://u:secret@h\x01", "store URL", ErrInvalid},
		{"test://u:secret@h?a=%zz", "its query is malformed", ErrInvalid},
		{"test://u:secret@down", "store unavailable: connection refused", ErrUnavailable},
		{"test://u:secret@refused", "store unavailable: dial: connection refused", ErrUnavailable},
		{"test://u:secret@mistaken", "invalid argument", ErrInvalid},
	} {
		_, _, err := Open(t.Context(), tc.url)
		if !errors.Is(err, tc.is) || errors.Is(err, ErrUnavailable) != (tc.is == ErrUnavailable) {
			t.Errorf("Open(%q): %v, want %v", tc.url, err, tc.is)
		} else if !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q): %v: want %q and no password", tc.url, err, tc.want)
		}
	}
}

// A caller who left says nothing of the store.
func TestOpenIsCancelled(t *testing.T) {
	registerTest(t, func(ctx context.Context, _ *url.URL) (Backend, error) { return nil, NotSent(ctx.Err()) })
	why := errors.New("the program ends")
	for _, cause := range []error{nil, why} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, _, err := Open(ctx, "test://x")
		if !errors.Is(err, context.Canceled) || !errors.Is(err, context.Cause(ctx)) || errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), ErrNotSent.Error()) {
			t.Errorf("cancelled because of %v: %v", cause, err)
		}
	}
}

// No text opens anything but what it names, and no error shows a password.
func FuzzOpen(f *testing.F) {
	open := func(context.Context, *url.URL) (Backend, error) { return nil, ErrInvalid }
	Register("fuzz", open)
	for _, rest := range []string{"", "://", "://u:hidden@h", ":u:hidden@h", "://u:hidden@h?prefix=a&b=%zz", "s://u:hidden@h,i/1"} {
		f.Add(rest)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		b, _, err := Open(t.Context(), "fuzz"+rest)
		if b != nil || err == nil {
			t.Fatalf("opened %v, %v", b, err)
		}
		if strings.Count(rest, "hidden") == 1 && strings.Contains(rest, "://u:hidden@") && strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: the error shows the password: %v", rest, err)
		}
	})
}

func TestRegisterRefuses(t *testing.T) {
	open := func(context.Context, *url.URL) (Backend, error) { return nil, nil }
	registerTest(t, open)
	for name, register := range map[string]func(){
		"twice": func() { Register("test", open) },
		"empty": func() { Register("", open) },
		"nil":   func() { Register("nil", nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Register %s: no panic", name)
				}
			}()
			register()
		}()
	}
}
