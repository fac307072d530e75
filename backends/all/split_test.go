package all_test

import (
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// Locks on etcd and limits on Redis, behind one client: each goes where it belongs, and
// the claims are those of the half that keeps them.
func TestSplit(t *testing.T) {
	etcd, redis := testserver.Etcd(t), testserver.Redis(t)
	open := func(url string) driver.Backend {
		t.Helper()
		b, _, err := driver.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	c, err := coord.New(driver.Split(open("etcd://"+etcd.Addr), open("redis://"+redis.Addr)))
	if err != nil {
		t.Fatal(err)
	}
	claims := c.Info().Claims
	if missing := claims.Missing(driver.Fair, driver.Wake, driver.TokenFailover, driver.ServerClock); len(missing) > 0 {
		t.Errorf("claims %v: want %v too", claims, missing)
	}

	before := redis.Commands()["evalsha"]
	l, err := c.Lock(t.Context(), "order", coord.Fair())
	if err != nil {
		t.Fatal(err)
	}
	if n := redis.Commands()["evalsha"] - before; n != 0 {
		t.Errorf("a lock ran %d scripts on Redis", n)
	}
	raw, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := raw.Close(); err != nil {
			t.Error(err)
		}
	})
	held, err := raw.Get(t.Context(), "coord/", clientv3.WithPrefix())
	if err != nil || held.Count != 1 {
		t.Errorf("%d keys in etcd while one lock is held, %v", held.Count, err)
	}

	r, err := c.AllowN(t.Context(), "order", coord.PerHour(3), 3)
	if err != nil || !r.Allowed {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err = c.Allow(t.Context(), "order", coord.PerHour(3)); err != nil || r.Allowed {
		t.Errorf("a fourth permit: %+v, %v", r, err)
	}
	if held, err = raw.Get(t.Context(), "coord/", clientv3.WithPrefix()); err != nil || held.Count != 1 {
		t.Errorf("%d keys in etcd after limits were asked, %v", held.Count, err)
	}

	// The one half's outage is not the other's.
	redis.Kill()
	if _, err := c.Peek(t.Context(), "order", coord.PerHour(3)); !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("a limit while Redis is down: %v", err)
	}
	if err := l.Unlock(t.Context()); err != nil {
		t.Errorf("Unlock while Redis is down: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
