package config_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/file"
	"github.com/coordgo/coord/config"
)

// A store from elsewhere is held to what a file's is, and leaves the Config as it was.
func TestSetURLRefuses(t *testing.T) {
	for _, tt := range []struct{ text, url, want string }{
		{"url: memory://\n", "s3cret", "--url: not a URL: want a form like redis://host:6379/0 or file:///var/lib/app/coord"},
		{"url: memory://\n", "redis:s3cret", "--url: no // after the scheme: want a form like redis://host:6379/0 or file:///var/lib/app/coord"},
		{"url: memory://\n", "redis://h?p=%zzs3cret", "--url: malformed query: want a form like redis://host:6379/0 or file:///var/lib/app/coord"},
		{"url: memory://\n", "redis://u:${s3cret@h", "--url: a ${ that does not end: want ${NAME} or ${file:/path}"},
		{"url: memory://\nprefix: a/\n", "redis://u:s3cret@h?prefix=b", `--url: prefix "b" contradicts prefix "a/" in coord.yaml:2`},
	} {
		c, err := config.Parse("coord.yaml", []byte(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		err = c.SetURL("--url", tt.url)
		if err == nil || err.Error() != tt.want || !errors.Is(err, coord.ErrInvalid) || c.URL != "memory://" {
			t.Errorf("SetURL(%s) on %q\n got: %v\nwant: %s", tt.url, tt.text, err, tt.want)
		}
	}
}

func TestStores(t *testing.T) {
	for text, want := range map[string][]config.URL{
		"":                    nil,
		"url: memory://\n":    {"memory://"},
		"url: redis://u:p@h,": {"redis://u:p@h,"},
		"url: {locks: 'etcd://e', limits: 'redis://r'}\n": {"etcd://e", "redis://r"},
	} {
		c, err := config.Parse("coord.yaml", []byte(text))
		if err != nil || !slices.Equal(c.Stores(), want) {
			t.Errorf("%q: %v, %v, want %v", text, c.Stores(), err, want)
		}
	}
	if got := fmt.Sprintf("%#v", config.URL("redis://u:s3cret@h")); got != "config.URL(redis://xxxxx@h)" {
		t.Errorf("%%#v shows %s", got)
	}
}

// Opening a file with a mistake, and one that is not there.
func TestOpenFileRefuses(t *testing.T) {
	path := file(t, "url: memory://\nlock: {ttl: 10}\n")
	if _, err := config.Open(t.Context(), path); err == nil || err.Error() != path+`:2: lock.ttl: "10": want a duration such as 30s` {
		t.Errorf("Open: %v", err)
	}
}

// Fair and renew reach the client.
func TestOpenLockOptions(t *testing.T) {
	dir := filepath.ToSlash(t.TempDir())
	c, err := open(t, "url: file://"+dir+"\nlock: {fair: true}\n")
	if !errors.Is(err, coord.ErrUnsupported) {
		t.Errorf("fair locks on files: %v, %v", c, err)
	}
	c, err = open(t, "url: memory://\nlock: {renew: false, ttl: 50ms}\n")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := c.Lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if <-lock.Done(); !errors.Is(lock.Err(), coord.ErrLost) {
		t.Errorf("a lock that is not renewed ends with %v", lock.Err())
	}
}

// A reload is refused where the store cannot serve the new rules, where the new file contradicts a
// store from elsewhere, and where the client has been closed; the old rules stay.
func TestReloadRefusesForTheStore(t *testing.T) {
	dir := filepath.ToSlash(t.TempDir())
	path := file(t, "limits: {a: {rate: 9, per: 1s, lease: true}}\nrules: [{name: r, limits: [a]}]\n")
	c, err := config.LoadEnv(t.Context(), path, environ{}.lookup)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetURL("--url", "file://"+dir+"?prefix=x/"); err != nil {
		t.Fatal(err)
	}
	client, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := client.Config()
	refused := func(what, text, want string) {
		t.Helper()
		write(t, path, text)
		if err := client.Reload(t.Context()); err == nil || strings.ReplaceAll(err.Error(), path, "FILE") != want || client.Config() != before {
			t.Errorf("%s\n got: %v\nwant: %s", what, err, want)
		}
	}
	refused("two limits at once", "rules: [{name: r, limits: [1/1s, 1/1m]}]\n",
		"FILE:1: rules.r: GET / meets 2 limits, of r, and file cannot take them in one step (it does not claim atomic-multi): set best_effort: true, or let one limit apply")
	refused("two limits in shadow mode", "rules: [{name: r, shadow: true, limits: [1/1s, 1/1m]}]\n",
		"FILE:1: rules.r: GET / meets 2 limits, of r, and file cannot take them in one step (it does not claim atomic-multi): set best_effort: true, or let one limit apply")
	refused("two limits of a network", "rules: [{name: r, match: {networks: [10.0.0.0/8]}, limits: [1/1s]}, {name: s, limits: [1/1m]}]\n",
		"FILE:1: rules.r: GET / meets 2 limits, of r and s, and file cannot take them in one step (it does not claim atomic-multi): set best_effort: true, or let one limit apply")
	refused("another prefix", "prefix: y/\n", `--url: prefix "x/" contradicts prefix "y/" in FILE:1`)
	write(t, path, "rules: [{name: r, shadow: true, limits: [1/1s]}, {name: s, limits: [1/1m]}]\nlimits: {a: {rate: 9, per: 1s, lease: true}}\n")
	if err := client.Reload(t.Context()); err != nil {
		t.Errorf("a limit, and one in shadow mode: %v", err)
	}
	before = client.Config()
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"a lease that begins": "limits: {a: {rate: 9, per: 1s, lease: {max: 7}}}\n",
		"a lease that ends":   "limits: {b: 1/1s}\n",
	} {
		write(t, path, text)
		if err := client.Reload(t.Context()); !errors.Is(err, coord.ErrClosed) || client.Config() != before {
			t.Errorf("%s on a closed client: %v", what, err)
		}
	}
}
