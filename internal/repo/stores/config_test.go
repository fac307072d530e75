package stores

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/internal/testserver"
	"github.com/coordgo/coord/rules"
)

// open opens a file of that text.
func open(t *testing.T, text string, opts ...coord.Option) (*config.Client, error) {
	t.Helper()
	t.Setenv(config.EnvURL, "")
	c, err := config.Open(t.Context(), file(t, text), opts...)
	if err == nil {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return c, err
}

// A service that is configured by one file runs on another store when one line of it changes, and
// on two stores.
func TestOneLine(t *testing.T) {
	redis, etcd := sharedRedis(t), "etcd://"+testserver.Etcd(t).Addr
	const service = `
prefix: "shop/"
require: [scope-hosts, per-hold-ttl, atomic-multi]
lock: {ttl: 5s, wait: 1s}
limits:
  supplier: 3/24h
rules:
  - {name: health, match: {path: /healthz}, final: true}
  - {name: orders, match: {methods: [POST], path: /orders/}, subject: user, limits: [2/24h, supplier]}
`
	for name, url := range map[string]string{"redis": redis, "etcd": etcd, "two": "{locks: '" + etcd + "', limits: '" + redis + "'}"} {
		t.Run(name, func(t *testing.T) {
			c, err := open(t, "url: "+url+service, coord.WithHolderName("service"))
			if err != nil {
				t.Fatal(err)
			}
			try(t, c, fmt.Sprint(t.Name(), time.Now().UnixNano())) // others use the server, too
		})
	}
}

// try uses the lock defaults, a limit, the rules and a reload, under keys of its own.
func try(t *testing.T, c *config.Client, own string) {
	t.Helper()
	ctx := t.Context()
	lock, err := c.Lock(ctx, own)
	if err != nil {
		t.Fatal(err)
	}
	if lock.TTL() != 5*time.Second {
		t.Errorf("TTL %v, want 5s", lock.TTL())
	}
	if _, err := c.Lock(ctx, own); !errors.Is(err, coord.ErrLocked) {
		t.Errorf("the lock again: %v", err)
	}
	if err := lock.Unlock(ctx); err != nil {
		t.Error(err)
	}

	limit, err := c.Limit("supplier")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, true, true, false} {
		if r, err := c.Allow(ctx, own, limit); err != nil || r.Allowed != want {
			t.Errorf("ask %d: %+v, %v", i+1, r, err)
		}
	}
	for i, want := range []bool{true, true, false} {
		d, err := c.Rules().Allow(ctx, c, &rules.Request{Method: "POST", Path: "/orders/7", User: own})
		if err != nil || d.Allowed != want {
			t.Errorf("request %d: %+v, %v", i+1, d, err)
		}
	}
	if d, err := c.Rules().Allow(ctx, c, &rules.Request{Method: "GET", Path: "/healthz", User: own}); err != nil || !d.Allowed || len(d.Bounds) > 0 {
		t.Errorf("the exempt path: %+v, %v", d, err)
	}
	if err := c.Reload(ctx); err != nil {
		t.Error(err)
	}
}
