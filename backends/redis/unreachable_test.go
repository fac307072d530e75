package redis

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// What Open answers over sentinels and clusters when something is not as it should be: an
// error that says so, in time, and without the passwords.
func TestNightlyOpenTopologies(t *testing.T) {
	t.Parallel()
	sentinels := testserver.RedisSentinel(t, testserver.WithPassword("secret"), testserver.WithTLS())
	nodes := testserver.RedisCluster(t, 0, testserver.WithPassword("secret"), testserver.WithTLS())
	keys, sentinelKeys := tlsQuery(nodes.Nodes[0].TLS), tlsQuery(sentinels.Nodes[0].TLS)
	watched, nodeList := strings.Join(sentinels.Sentinels(), ","), strings.Join(nodes.Addrs(), ",")
	for name, tt := range map[string]struct {
		url    string
		server string // the end of what is found, or
		err    error  // with
		text   string
	}{
		"sentinel":                    {url: "rediss+sentinel://:secret@" + watched + "/mymaster/3?sentinel_password=secret&" + sentinelKeys, server: " sentinel"},
		"cluster":                     {url: "rediss+cluster://:secret@" + nodeList + "?" + keys, server: " cluster"},
		"cluster, one node":           {url: "rediss+cluster://:secret@" + nodes.Nodes[1].Addr + "?" + keys, server: " cluster"},
		"sentinel, no such master":    {url: "rediss+sentinel://:secret@" + watched + "/other?sentinel_password=secret&" + sentinelKeys, err: driver.ErrNotSent, text: "sentinels"},
		"sentinel, wrong password":    {url: "rediss+sentinel://:wrong@" + watched + "/mymaster?sentinel_password=secret&" + sentinelKeys, err: driver.ErrNotSent, text: "WRONGPASS"},
		"sentinel, its own password":  {url: "rediss+sentinel://:secret@" + watched + "/mymaster?sentinel_password=wrong&" + sentinelKeys, err: driver.ErrNotSent, text: "WRONGPASS"},
		"sentinel, unknown authority": {url: "rediss+sentinel://:secret@" + watched + "/mymaster?sentinel_password=secret", err: driver.ErrNotSent, text: "certificate"},
		"sentinel, a server with data": {
			url: "rediss+sentinel://:secret@" + sentinels.Nodes[0].Addr + "/mymaster?sentinel_password=secret&" + sentinelKeys,
			err: driver.ErrNotSent, text: "sentinels",
		},
		"cluster, wrong password":    {url: "rediss+cluster://:wrong@" + nodeList + "?" + keys, err: driver.ErrNotSent, text: "WRONGPASS"},
		"cluster, no password":       {url: "rediss+cluster://" + nodeList + "?" + keys, err: driver.ErrNotSent, text: "NOAUTH"},
		"cluster, unknown authority": {url: "rediss+cluster://:secret@" + nodeList, text: "certificate"},
		"cluster, no such cluster": {
			url: "rediss+cluster://:secret@" + sentinels.Nodes[0].Addr + "?" + sentinelKeys,
			err: driver.ErrNotSent, text: "cluster support disabled",
		},
		"nobody listens, cluster":  {url: "redis+cluster://127.0.0.1:1,127.0.0.1:2", err: driver.ErrNotSent, text: "connection refused"},
		"nobody listens, sentinel": {url: "redis+sentinel://127.0.0.1:1,127.0.0.1:2/mymaster", err: driver.ErrNotSent, text: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := openURL(t, tt.url)
			if tt.server == "" {
				if err == nil || tt.err != nil && !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%v, want %v with %q", err, tt.err, tt.text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if info := b.Info(); info.Name != "redis" || !strings.HasSuffix(info.Server, tt.server) {
				t.Errorf("%+v", info)
			}
			r := request("a", time.Minute)
			must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
			if err := errors.Join(b.Unlock(t.Context(), "k", r.ID), b.Close()); err != nil {
				t.Error(err)
			}
			if _, err := b.TryLock(t.Context(), "k", r); !errors.Is(err, driver.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

func tlsQuery(keys *testserver.TLS) string {
	return "tls_ca=" + keys.CAFile + "&tls_cert=" + keys.CertFile + "&tls_key=" + keys.KeyFile
}

// TestNightlyTrap02ContextBoundsTopologies: a call ends with its ctx where all servers have
// stopped, and where what should be a server of the topology does not answer.
func TestNightlyTrap02ContextBoundsTopologies(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, r replicated) {
		b := connectTo(t, r.client())
		held := request("a", time.Minute)
		must[driver.Grant](t)(b.TryLock(t.Context(), "k", held))
		for _, s := range r.Nodes {
			s.Pause()
		}
		l := limitOf(t, "10/1s")
		for name, call := range map[string]func(ctx context.Context) error{
			"TryLock": func(ctx context.Context) error { _, err := b.TryLock(ctx, "k", held); return err },
			"Renew":   func(ctx context.Context) error { _, err := b.Renew(ctx, "k", held); return err },
			"Unlock":  func(ctx context.Context) error { return b.Unlock(ctx, "k", held.ID) },
			"RenewAll": func(ctx context.Context) error {
				return b.RenewAll(ctx, []driver.Hold{{Key: "k", Request: held}})[0].Err
			},
			"TakeOne": func(ctx context.Context) error { _, err := b.TakeOne(ctx, "k", l, driver.Ask{N: 1}); return err },
			"Ping":    b.Ping,
		} {
			promptly(t, func() error {
				bound := driver.NewBound(t.Context(), 50*time.Millisecond)
				defer bound.Stop()
				return call(bound)
			})
			ctx, cancel := context.WithCancel(t.Context())
			err := promptly(t, func() error {
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(50*time.Millisecond, cancel)
				return call(ctx)
			})
			cancel()
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v, want context.Canceled", name, err)
			}
			if err := call(ctx); !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, context.Canceled) {
				t.Errorf("%s with a ctx that has ended: %v", name, err)
			}
		}
		for _, s := range r.Nodes {
			s.Resume()
		}
	})
}

// A black hole in place of every address that a URL names: Open ends with its ctx.
func TestOpenTopologiesInABlackHole(t *testing.T) {
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	for _, raw := range []string{
		"redis+cluster://" + hole.Addr().String() + "?read_timeout=1m&dial_timeout=1m",
		"redis+sentinel://" + hole.Addr().String() + "/mymaster?read_timeout=1m&dial_timeout=1m",
	} {
		u := must[*url.URL](t)(url.Parse(raw))
		promptly(t, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := Open(ctx, u)
			return err
		})
	}
}

// TestNightlyProbeAsksEachMaster: one node of a cluster that may evict is found.
func TestNightlyProbeAsksEachMaster(t *testing.T) {
	t.Parallel()
	c := testserver.RedisCluster(t, 0, silently)
	node := redis.NewClient(clientOptions(c.Nodes[1].Addr))
	defer node.Close()
	for name, value := range map[string]string{"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"} {
		if err := node.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	client := clusterClient(c, nil)
	defer client.Close()
	log, text := textLogger()
	b, err := New(client, WithLogger(log))
	if err != nil {
		t.Fatal(err)
	}
	if got := text.String(); strings.Count(got, "evicts keys") != 1 {
		t.Errorf("logged %q, want one warning", got)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestNightlyTrap14ClusterDown: a cluster that has lost a master serves no slot; that is no
// answer of another holder, and was not done.
func TestNightlyTrap14ClusterDown(t *testing.T) {
	t.Parallel()
	c := testserver.RedisCluster(t, 0, silently)
	b := connectTo(t, clusterClient(c, nil))
	slot := c.RedisSlot(lockKey("k"))
	first := c.RedisMaster(slot)
	r := request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	other(c, first).Kill()
	var err error
	for deadline := time.Now().Add(hung); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err = b.TryLock(t.Context(), "k", r); err != nil {
			break
		}
	}
	if !errors.Is(err, driver.ErrNotSent) || !redis.IsClusterDownError(err) {
		t.Errorf("%v, want ErrNotSent for CLUSTERDOWN", err)
	}
	if err := b.Ping(t.Context()); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("Ping: %v, want ErrNotSent", err)
	}
}
