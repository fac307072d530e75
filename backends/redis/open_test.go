package redis

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

func TestParseURL(t *testing.T) {
	u, err := url.Parse("rediss://user:pa%40ss@host/3?dial_timeout=2s&read_timeout=3s&write_timeout=4s&pool_size=7&client_name=me&tls_server_name=other&tls_insecure=true")
	if err != nil {
		t.Fatal(err)
	}
	target, err := parseURL(u)
	if err != nil {
		t.Fatal(err)
	}
	o := target.options.Simple()
	if o.Addr != "host:6379" || o.Username != "user" || o.Password != "pa@ss" || o.DB != 3 ||
		o.DialTimeout != 2*time.Second || o.ReadTimeout != 3*time.Second || o.WriteTimeout != 4*time.Second ||
		o.PoolSize != 7 || o.ClientName != "me" || o.TLSConfig.ServerName != "other" || !o.TLSConfig.InsecureSkipVerify {
		t.Errorf("%+v", o)
	}
	if !o.ContextTimeoutEnabled || o.MaxRetries != -1 {
		t.Error("the contract's settings are not set")
	}
	u, err = url.Parse("redis://[::1]:7000")
	if err != nil {
		t.Fatal(err)
	}
	if target, err = parseURL(u); err != nil {
		t.Fatal(err)
	}
	if o = target.options.Simple(); o.Addr != "[::1]:7000" || o.DB != 0 || o.TLSConfig != nil {
		t.Errorf("%+v", o)
	}
}

func TestParseURLOfSentinels(t *testing.T) {
	u, err := url.Parse("rediss+sentinel://user:pass@s1,s2:7000/mymaster/3?sentinel_user=su&sentinel_password=sp&wait_replicas=2")
	if err != nil {
		t.Fatal(err)
	}
	target, err := parseURL(u)
	if err != nil {
		t.Fatal(err)
	}
	o := target.options.Failover()
	if !slices.Equal(o.SentinelAddrs, []string{"s1:26379", "s2:7000"}) || o.MasterName != "mymaster" || o.DB != 3 ||
		o.Username != "user" || o.Password != "pass" || o.SentinelUsername != "su" || o.SentinelPassword != "sp" ||
		o.MaxRetries != -1 || !o.ContextTimeoutEnabled || o.TLSConfig == nil || o.TLSConfig.ServerName != "" {
		t.Errorf("%+v", o)
	}
	if target.topology != sentinel || target.wait.replicas != 2 || target.wait.replicasWithin != time.Second {
		t.Errorf("%+v", target)
	}
}

func TestParseURLOfClusters(t *testing.T) {
	for raw, serverName := range map[string]string{
		"rediss+cluster://user:pass@h1?read_timeout=2s":      "",
		"rediss+cluster://user:pass@h1?tls_server_name=name": "name",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		target, err := parseURL(u)
		if err != nil {
			t.Fatal(err)
		}
		o := target.options.Cluster()
		if !slices.Equal(o.Addrs, []string{"h1:6379"}) || o.Username != "user" || o.Password != "pass" || o.MaxRetries != -1 ||
			!o.ContextTimeoutEnabled || target.topology != cluster || o.TLSConfig == nil || o.TLSConfig.ServerName != serverName {
			t.Errorf("%+v", o)
		}
	}
}

func TestBadURLs(t *testing.T) {
	dir := t.TempDir()
	notPEM := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(notPEM, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]string{
		"http://h":                           `scheme "http"`,
		"redis:h":                            "store URL",
		"redis:///0":                         "store URL",
		"redis://h:0":                        `port "0"`,
		"redis://h:70000":                    `port "70000"`,
		"redis://h/x":                        "the number of a database",
		"redis://h/-1":                       "the number of a database",
		"redis://h/1/2":                      "the number of a database",
		"redis://h#f":                        "a fragment",
		"redis://h?nope=1":                   `parameter "nope": want prefix, client_name, dial_timeout`,
		"redis://h?pool_size=1&pool_size=2":  "given 2 times",
		"redis://h?pool_size=0":              "want 1 to 10000",
		"redis://h?pool_size=x":              "want 1 to 10000",
		"redis://h?read_timeout=0":           "want a duration from 1ms to 1h0m0s",
		"redis://h?dial_timeout=2h":          "want a duration",
		"redis://h?write_timeout=5":          "want a duration",
		"redis://h?client_name=a%20b":        "printable",
		"redis://h?tls_ca=x":                 "want a rediss:// URL",
		"rediss://h?tls_ca=" + dir + "/none": "tls_ca",
		"rediss://h?tls_ca=" + notPEM:        "no PEM certificate",
		"rediss://h?tls_cert=x":              "want both or none",
		"rediss://h?tls_cert=" + notPEM + "&tls_key=none": "tls_cert and tls_key",
		"rediss://h?tls_insecure=maybe":                   `"maybe": want true or false`,
		"redis://h1,h2":                                   "2 hosts: want one",
		"redis://h?sentinel_user=x":                       `parameter "sentinel_user"`,
		"redis://h?wait_timeout=1s":                       "wait for 0 replicas: want 1 to 100",
		"redis://h?wait_replicas=1&wait_timeout=5s":       "less than the read timeout of 5s",
		"redis+sentinel://h1,h2":                          "no name of a master: want a form like redis+sentinel://host:26379/mymaster",
		"redis+sentinel://h1/m/x":                         "the number of a database",
		"redis+sentinel://h1/m?sentinel_password=%00&x=1": `parameter "x"`,
		"redis+cluster://h1/1":                            "a path: want none",
		"redis+cluster://h1?socket=/s":                    `parameter "socket"`,
		"rediss://h?socket=/s":                            "parameter socket: there is no TLS on it",
		"redis://h?socket=":                               "want a path from / on",
		"redis://h?socket=redis.sock":                     "want a path from / on",
		"redis+cluster://h1?tls_ca=x":                     "want a rediss+cluster:// URL",
		"redis+other://h1":                                `scheme "redis+other": want redis or rediss`,
		"valkey://h?tls_ca=x":                             "want a valkeys:// URL",
		"valkey+sentinel://h1,h2":                         "want a form like valkey+sentinel://host:26379/mymaster",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword("user", "secret")
		if _, err := Open(t.Context(), u); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("redis://user:password@host:6379/0?read_timeout=1s")
	f.Add("redis+sentinel://user:password@h1,h2:6379/name/0?sentinel_password=x")
	f.Add("redis+cluster://h1,h2?wait_replicas=1&wait_timeout=1s")
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.Parse(raw)
		if err != nil || strings.Contains(raw, "tls_") {
			return // reads files
		}
		o, err := parseURL(u)
		if err != nil {
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%v is not ErrInvalid", err)
			}
			return
		}
		if o := o.options; len(o.Addrs) == 0 || o.DB < 0 || o.ReadTimeout <= 0 {
			t.Errorf("%+v", o)
		}
	})
}

func openURL(t *testing.T, raw string) (driver.Backend, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return Open(t.Context(), u)
}

func TestOpen(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t, testserver.WithPassword("secret"))
	b, err := openURL(t, "redis://:secret@"+srv.Addr+"/2")
	if err != nil {
		t.Fatal(err)
	}
	if info := b.Info(); info.Name != "redis" || !strings.Contains(info.Server, " ") {
		t.Errorf("%+v", info)
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.TryLock(t.Context(), "k", request("a", time.Second)); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := openURL(t, "redis://:wrong@"+srv.Addr); err == nil || strings.Contains(err.Error(), ":wrong@") {
		t.Errorf("wrong password: %v", err)
	}
	srv.Kill()
	if _, err := openURL(t, "redis://:secret@"+srv.Addr); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("no server: %v", err)
	}
}

func TestOpenTLS(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t, testserver.WithTLS())
	base := "rediss://" + srv.Addr
	keys := "tls_cert=" + srv.TLS.CertFile + "&tls_key=" + srv.TLS.KeyFile
	b, err := openURL(t, base+"?tls_ca="+srv.TLS.CAFile+"&"+keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for name, query := range map[string]string{
		"unknown authority": "?" + keys,
		"wrong name":        "?tls_server_name=example.org&tls_ca=" + srv.TLS.CAFile + "&" + keys,
		"no certificate":    "?tls_ca=" + srv.TLS.CAFile,
	} {
		if _, err := openURL(t, base+query); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	b, err = openURL(t, base+"?tls_insecure=true&tls_server_name=example.org&"+keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// A URL may name Valkey, in every topology.
func TestOpenValkey(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t)
	c, err := coord.Open(t.Context(), "valkey://"+srv.Addr+"/1?prefix=p/")
	if err != nil {
		t.Fatal(err)
	}
	if l, err := c.TryLock(t.Context(), "k"); err != nil || l.Unlock(t.Context()) != nil {
		t.Errorf("%v, %v", l, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for raw, want := range map[string]topology{"valkeys://h": single, "valkeys+cluster://h": cluster, "valkeys+sentinel://h/m": sentinel} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseURL(u); err != nil || got.topology != want || got.options.TLSConfig == nil {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
}

// TestNewRefuses: a client that cannot keep the contract is refused with the remedy.
func TestNewRefuses(t *testing.T) {
	for want, o := range map[string]*redis.Options{
		"ContextTimeoutEnabled": {},
		"ReadTimeout":           {ContextTimeoutEnabled: true, ReadTimeout: -1},
		"WriteTimeout":          {ContextTimeoutEnabled: true, WriteTimeout: -2},
	} {
		c := redis.NewClient(o)
		if _, err := New(c); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{})
	if _, err := New(cluster); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("cluster: %v", err)
	}
	ring := redis.NewRing(&redis.RingOptions{})
	if _, err := New(ring); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("ring: %v", err)
	}
	if _, err := New(nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("nil: %v", err)
	}
	if err := errors.Join(cluster.Close(), ring.Close()); err != nil {
		t.Error(err)
	}
}

// TestCloseLeavesTheClient: a client of the application outlives the backend,
// and calls under way end.
func TestCloseLeavesTheClient(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	if err := b.client.Do(t.Context(), "CLIENT", "PAUSE", "200", "ALL").Err(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- b.Ping(t.Context()) }()
	for b.client.PoolStats().IdleConns == b.client.PoolStats().TotalConns {
		time.Sleep(time.Millisecond) // until the call has its connection
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil || driver.Definite(err) {
		t.Errorf("the call under way: %v", err)
	}
	if err := b.Ping(t.Context()); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := b.client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the application's client: %v", err)
	}
	_ = srv
}

func TestServerVersion(t *testing.T) {
	for _, tt := range []struct {
		about map[string]string
		want  string
		err   error
	}{
		{map[string]string{"redis_version": "7.0.15"}, "redis 7.0.15", nil},
		{map[string]string{"redis_version": "6.2.0"}, "redis 6.2.0", nil},
		{map[string]string{"redis_version": "7.2.4", "valkey_version": "8.0.1"}, "valkey 8.0.1", nil},
		{map[string]string{}, "", nil},
		{map[string]string{"redis_version": "6.0.16"}, "", driver.ErrUnsupported},
		{map[string]string{"redis_version": "5.0.7"}, "", driver.ErrUnsupported},
	} {
		if got, err := serverVersion(tt.about); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%v: %q, %v", tt.about, got, err)
		}
	}
}
