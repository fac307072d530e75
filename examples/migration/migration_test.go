package migration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redis/redis_rate/v10"
	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// job runs work under a lock.
type job func(ctx context.Context, work func(context.Context) error) error

// both is a job that takes the old lock first, and then the new one.
func both(before, after job) job {
	return func(ctx context.Context, work func(context.Context) error) error {
		return before(ctx, func(ctx context.Context) error { return after(ctx, work) })
	}
}

// excludes reports whether b is kept from working while a works, for as long as patience, and works after it.
func excludes(t *testing.T, a, b job, patience time.Duration) (excluded bool) {
	t.Helper()
	ended, begun := make(chan error, 1), make(chan struct{})
	err := a(t.Context(), func(context.Context) error {
		go func() {
			ended <- b(t.Context(), func(context.Context) error { close(begun); return nil })
		}()
		select {
		case <-begun:
		case <-time.After(patience):
			excluded = true
		}
		return nil
	})
	if err := errors.Join(err, <-ended); err != nil {
		t.Error(err)
	}
	return excluded
}

// The three steps of moving locks: neighbours exclude each other, the first and the last do not.
func rollOver(t *testing.T, before, after job) {
	t.Helper()
	during := both(before, after)
	for _, tc := range []struct {
		name string
		a, b job
		want bool
	}{
		{"before and during", before, during, true},
		{"during and before", during, before, true},
		{"during and during", during, during, true},
		{"during and after", during, after, true},
		{"after and during", after, during, true},
		{"before and after", before, after, false},
		{"after and before", after, before, false},
	} {
		patience := time.Minute // for who is not kept out, however slow the machine
		if tc.want {
			patience = 50 * time.Millisecond // who is let in comes sooner, on most machines
		}
		if got := excludes(t, tc.a, tc.b, patience); got != tc.want {
			t.Errorf("%s: excluded is %v, want %v", tc.name, got, tc.want)
		}
	}
}

func openRedis(t *testing.T) (*redis.Client, *coord.Client) {
	rdb := redis.NewClient(&redis.Options{Addr: testserver.Redis(t).Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, clientOf(t)(overRedis(rdb))
}

func clientOf(t *testing.T) func(*coord.Client, error) *coord.Client {
	return func(client *coord.Client, err error) *coord.Client {
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
}

func TestRedsync(t *testing.T) {
	rdb, client := openRedis(t)
	before := func(ctx context.Context, work func(context.Context) error) error {
		return redsyncBefore(ctx, rdb, work)
	}
	after := func(ctx context.Context, work func(context.Context) error) error {
		return redsyncAfter(ctx, client, work)
	}
	rollOver(t, before, after)
	during := func(ctx context.Context, work func(context.Context) error) error {
		return redsyncBoth(ctx, rdb, client, work)
	}
	if !excludes(t, before, during, 50*time.Millisecond) || !excludes(t, after, during, 50*time.Millisecond) {
		t.Error("who takes both locks is excluded by each")
	}
}

func TestRedislock(t *testing.T) {
	rdb, client := openRedis(t)
	locker := redislock.New(rdb)
	rollOver(t, func(ctx context.Context, work func(context.Context) error) error {
		return redislockBefore(ctx, locker, []func(context.Context) error{work})
	}, func(ctx context.Context, work func(context.Context) error) error {
		return redislockAfter(ctx, client, []func(context.Context) error{work})
	})
}

func TestEtcd(t *testing.T) {
	cli, err := clientv3.New(clientv3.Config{Endpoints: []string{testserver.Etcd(t).Addr}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cli.Close() })
	client := clientOf(t)(overEtcd(cli))
	rollOver(t, func(ctx context.Context, work func(context.Context) error) error {
		return etcdBefore(ctx, cli, work)
	}, func(ctx context.Context, work func(context.Context) error) error {
		return etcdAfter(ctx, client, work)
	})
}

func TestZooKeeper(t *testing.T) {
	conn, _, err := zk.Connect([]string{testserver.ZooKeeper(t).Addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	client := clientOf(t)(overZooKeeper(conn))
	rollOver(t, func(ctx context.Context, work func(context.Context) error) error {
		return zkBefore(ctx, conn, work)
	}, func(ctx context.Context, work func(context.Context) error) error {
		return zkAfter(ctx, client, work)
	})
}

// Each library counts for itself; who asks both is bounded by each.
func TestRedisRate(t *testing.T) {
	rdb, client := openRedis(t)
	limiter := redis_rate.NewLimiter(rdb)
	for range 10 {
		if wait, err := rateBoth(t.Context(), limiter, client); wait != 0 || err != nil {
			t.Fatalf("%v, %v", wait, err)
		}
	}
	there, err := client.Peek(t.Context(), "supplier", coord.PerMinute(2000))
	if err != nil || there.Remaining != 1990 {
		t.Errorf("coord has %d left, %v: want 1990", there.Remaining, err)
	}
	if _, err := client.AllowN(t.Context(), "supplier", coord.PerMinute(2000), 1990); err != nil {
		t.Fatal(err)
	}
	if wait, err := rateBoth(t.Context(), limiter, client); wait == 0 || err != nil {
		t.Errorf("one too many for coord: %v, %v", wait, err)
	}
	if wait, err := rateBefore(t.Context(), limiter); wait != 0 || err != nil {
		t.Errorf("those that have not moved are not counted by coord: %v, %v", wait, err)
	}
	if l, err := sameBucket.Normal(); err != nil || l.Algorithm != coord.TokenBucket {
		t.Errorf("%v, %v", l, err)
	}
}
