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
	c, err := open(t, "url: "+store+"\nprefix: shop/\nrequire: [fair]\nlock: {ttl: 7s, wait: 20ms}\nlimits: {supplier: 2/1m}\n")
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
		"":                           `coord.yaml: limits: no limit "c": it has no limits`,
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
		{"url: nosuch://u:s3cret@h", nil, `no backend for "nosuch"`},
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
