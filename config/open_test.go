package config_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a file of that text.
func open(t *testing.T, text string, opts ...coord.Option) (*config.Client, error) {
	t.Helper()
	t.Setenv(config.EnvURL, "")
	path := filepath.Join(t.TempDir(), "coord.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Open(t.Context(), path, opts...)
	if err == nil {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return c, err
}

// What the file says reaches the client: prefix, lock defaults and limits.
func TestOpen(t *testing.T) {
	store := "memory://" + rand.Text() // of this run's own
	c, err := open(t, "url: "+store+"\nprefix: shop/\nrequire: [fair]\nlock: {ttl: 7s, wait: 1s}\nlimits: {supplier: 2/1m}\n")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	lock, err := c.Lock(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	if lock.TTL() != 7*time.Second {
		t.Errorf("TTL %v, want 7s", lock.TTL())
	}
	if _, err := c.Lock(ctx, "a"); !errors.Is(err, coord.ErrLocked) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait longer than lock.wait: %v", err)
	}
	whole, err := coord.Open(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	if _, err := whole.TryLock(ctx, "shop/a"); !errors.Is(err, coord.ErrLocked) {
		t.Errorf("the prefixed key is not taken: %v", err)
	}

	limit, err := c.Limit("supplier")
	if err != nil || limit != coord.PerMinute(2) {
		t.Errorf("Limit = %v, %v", limit, err)
	}
	for i, want := range []bool{true, true, false} {
		if r, err := c.Allow(ctx, "supplier", limit); err != nil || r.Allowed != want {
			t.Errorf("ask %d: %+v, %v", i+1, r, err)
		}
	}
}

func TestLimitUnknown(t *testing.T) {
	for text, want := range map[string]string{
		"limits: {b: 1/1s, a: 1/1s}": `coord.yaml: limits: no limit "c": want one of a, b`,
		"":                           `coord.yaml: limits: no limit "c": there are none`,
	} {
		c, err := config.Parse("coord.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Limit("c"); !errors.Is(err, coord.ErrInvalid) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, tt := range []struct {
		text string
		is   error
		want string
	}{
		{"prefix: a/", coord.ErrInvalid, "url: no store: set url, or COORD_URL in the environment"},
		{"url: memory://\nrequire: [scope-hosts]", coord.ErrUnsupported, "scope-hosts"},
		{"url: nosuch://u:s3cret@h", coord.ErrInvalid, `scheme "nosuch" is not registered`},
		{"url: memory://u:s3cret@h", coord.ErrInvalid, ""},
		{"url: memory://\nlock: {ttl: 87840h}", coord.ErrInvalid, "87840h"},
	} {
		_, err := open(t, tt.text)
		if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, want %v with %q", tt.text, err, tt.is, tt.want)
		}
	}
}

// COORD_URL is enough of a store, and options win over the file.
func TestOpenEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coord.yaml")
	if err := os.WriteFile(path, []byte("url: nosuch://\nlock: {ttl: 7s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(config.EnvURL, "memory://")
	c, err := config.Open(t.Context(), path, coord.WithLockDefaults(coord.TTL(9*time.Second)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lock, err := c.Lock(t.Context(), "a")
	if err != nil || lock.TTL() != 9*time.Second {
		t.Errorf("Lock = %v, %v", lock, err)
	}
}

// Two stores: locks on the one and limits on the other, under one prefix.
func TestOpenTwo(t *testing.T) {
	locks, limits := "memory://"+rand.Text(), "memory://"+rand.Text()
	ctx := t.Context()
	for _, text := range []string{
		"url: {locks: '" + locks + "', limits: '" + limits + "'}\nprefix: a/\n",
		"url: {locks: '" + locks + "?prefix=a/', limits: '" + limits + "'}\n",
		"url: {locks: '" + locks + "', limits: '" + limits + "?prefix=a/'}\n",
	} {
		c, err := open(t, text)
		if err != nil {
			t.Fatal(err)
		}
		lock, err := c.Lock(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		if r, err := c.Allow(ctx, "k", coord.PerHour(1)); err != nil || !r.Allowed {
			t.Errorf("Allow = %+v, %v", r, err)
		}
		for store, taken := range map[string]bool{locks: true, limits: false} {
			one, err := coord.Open(ctx, store, coord.WithPrefix("a/"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := one.TryLock(ctx, "k"); errors.Is(err, coord.ErrLocked) != taken {
				t.Errorf("%s: TryLock: %v, want it taken: %v", store, err, taken)
			}
			if r, err := one.Peek(ctx, "k", coord.PerHour(1)); err != nil || (r.Remaining == 0) == taken {
				t.Errorf("%s: Peek = %+v, %v", store, r, err)
			}
			if err := one.Reset(ctx, "k", coord.PerHour(1)); err != nil {
				t.Error(err)
			}
			if err := one.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := lock.Unlock(ctx); err != nil {
			t.Error(err)
		}
	}
}

// What was opened is closed when the rest cannot be; goleak sees a store that was not.
func TestOpenTwoRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"url: {locks: 'memory://', limits: 'nosuch://'}":                                       `scheme "nosuch" is not registered`,
		"url: {locks: 'nosuch://', limits: 'memory://'}":                                       `scheme "nosuch" is not registered`,
		"url: {locks: 'memory://', limits: 'memory://'}\nrequire: [scope-hosts]":               "scope-hosts",
		"url: {locks: 'memory://:${NOSUCH}@h', limits: 'memory://'}":                           "url.locks: ${NOSUCH}: not set in the environment",
		"url: {locks: 'memory://', limits: 'memory://:${NOSUCH}@h'}":                           "url.limits: ${NOSUCH}: not set in the environment",
		"url: {locks: 'file://" + filepath.ToSlash(t.TempDir()) + "', limits: 'memory://h/x'}": "want memory:// or memory://name",
	} {
		if _, err := open(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got: %v\nwant: %s", text, err, want)
		}
	}
}

// A store that takes one limit at a time cannot serve rules of which a request meets several:
// that is known before the first request.
func TestOpenSeveralLimits(t *testing.T) {
	url := "file://" + filepath.ToSlash(t.TempDir())
	for _, test := range []struct{ rules, want string }{
		{"- {name: a, limits: [1/1s, 1/1m]}", "GET / meets 2 limits, of a, and"},
		{"- {name: a, limits: [1/1s]}\n- {name: b, limits: [1/1m], match: {path: '/b/{id}/{$}'}}", "GET /b/x/ meets 2 limits, of a and b, and"},
		{"- {name: a, limits: [1/1s], match: {methods: [PUT], path: '/{all...}'}}\n- {name: b, limits: [1/1m], match: {path: /b/, methods: [GET, PUT]}}", "PUT /b/ meets 2 limits, of a and b, and"},
		{"- {name: a, limits: [1/1s], match: {rpc: '/a.*'}}\n- {name: b, limits: [1/1m], match: {rpc: /a.B/c}}", "RPC /a.B/c meets 2 limits, of a and b, and"},
		{"- {name: a, limits: [1/1s], match: {rpc: '/a.*'}}\n- {name: b, limits: [1/1m], match: {rpc: '/b.*'}}", ""},
		{"- {name: a, limits: [1/1s], match: {path: /a/}}\n- {name: b, limits: [1/1m], match: {path: /b/}}", ""},
		{"- {name: a, limits: [1/1s], match: {path: /a/}, final: true}\n- {name: b, limits: [1/1m], match: {path: /}, final: true}", ""},
		{"- {name: a, limits: [1/1s]}", ""},
	} {
		text := "url: " + url + "\nrules:\n" + test.rules + "\n"
		_, err := open(t, text)
		if test.want == "" {
			if err != nil {
				t.Errorf("%s: %v", test.rules, err)
			}
			continue
		}
		var e *config.Error
		if !errors.As(err, &e) || e.Line < 3 || !strings.HasPrefix(e.Key, "rules.") || !strings.HasPrefix(e.Problem, test.want) ||
			!strings.HasSuffix(e.Problem, "file cannot take them in one step (it does not claim atomic-multi): set best_effort: true, or let one limit apply") {
			t.Errorf("%s\n got: %v\nwant: %s", test.rules, err, test.want)
		}
		if _, err := open(t, text+"best_effort: true\n"); err != nil {
			t.Errorf("%s, best_effort: %v", test.rules, err)
		}
		if _, err := open(t, text, coord.WithBestEffort()); err != nil {
			t.Errorf("%s, with the option: %v", test.rules, err)
		}
		if _, err := open(t, strings.Replace(text, url, "memory://", 1)); err != nil {
			t.Errorf("%s, on memory: %v", test.rules, err)
		}
	}
}
