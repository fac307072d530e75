package secrets

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// What no output may have.
const (
	password = "s3cr3t-w0rd"
	other    = "0ther-s3cr3t"
)

const envSecretURL = "COORD_TEST_SECRET_URL"

// A process of its own opens the URL, uses the store, and says all that there is to say, so
// that what client libraries write to standard error by themselves is seen too.
func TestSecretsProcess(t *testing.T) {
	url := os.Getenv(envSecretURL)
	if url == "" {
		return // it is started by TestNoSecretIsTold
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	spans, err := telemetry()
	tell("telemetry", err)
	client, err := coord.Open(ctx, url, coord.WithObserver(everything()), coord.WithObserver(spans), coord.WithBestEffort())
	tell("opened", err)
	if err != nil {
		return
	}
	tell("client", client)
	use(ctx, client)
	tell("closed", client.Close())
}

// use makes every kind of call, and writes what comes of it.
func use(ctx context.Context, client *coord.Client) {
	tell("info", client.Info())
	settings, err := client.Describe(ctx)
	tell("settings", settings)
	tell("described", err)
	l, err := client.TryLock(ctx, "k")
	tell("locked", err)
	if err == nil {
		holder, err := client.Inspect(ctx, "k")
		tell("holder", holder)
		tell("inspected", err)
		tell("unlocked", l.Unlock(ctx))
	}
	tell("done", coord.Do(ctx, client, "k", func(context.Context) error { return nil }))
	tell("broken", client.Break(ctx, "k", "nobody"))
	limit := coord.PerSecond(1)
	result, err := client.Allow(ctx, "k", limit)
	tell("result", result)
	tell("allowed", err)
	results, err := client.AllowAll(ctx, coord.Demand{Key: "a", Limit: limit}, coord.Demand{Key: "b", Limit: limit})
	tell("results", results)
	tell("all allowed", err)
	tell("reset", client.Reset(ctx, "k", limit))
	tell("pinged", client.Ping(ctx))
}

// No password of a URL is in a log, an error or Info, whether it is wrong, right, not wanted or
// in a URL that cannot be read.
func TestNoSecretIsTold(t *testing.T) {
	redis := testserver.Redis(t, testserver.WithPassword("the-right-0ne")).Addr
	right := testserver.Redis(t, testserver.WithPassword(password)).Addr
	etcd, zookeeper, memcached := testserver.Etcd(t).Addr, testserver.ZooKeeper(t).Addr, testserver.Memcached(t).Addr
	user := "u:" + password + "@"
	for name, tc := range map[string]struct{ url, want string }{
		"redis, wrong":           {"redis://" + user + redis, "WRONGPASS"},
		"redis, right":           {"redis://:" + password + "@" + right, "span coord.do: "},
		"a lease, right":         {"redis://:" + password + "@" + right + "/0", "Acquired: "},
		"metrics, right":         {"redis://:" + password + "@" + right + "/1", "counted: "},
		"redis, down":            {"redis://" + user + "127.0.0.1:1", "xxxxx"},
		"redis, bad database":    {"redis://" + user + redis + "/x?" + "password=" + other, "opened: coord"},
		"sentinel, wrong":        {"redis+sentinel://" + user + redis + "?master=m&sentinel_password=" + other, "opened: coord"},
		"cluster, wrong":         {"redis+cluster://" + user + redis, "opened: coord"},
		"rediss, no TLS":         {"rediss://" + user + redis, "opened: coord"},
		"etcd, not wanted":       {"etcd://" + user + etcd, ": "},
		"etcd, down":             {"etcd://" + user + "127.0.0.1:1", "xxxxx"},
		"etcd, bad parameter":    {"etcd://" + user + etcd + "?password=" + other, "xxxxx"},
		"zookeeper":              {"zookeeper://" + user + zookeeper, "unlocked: <nil>"},
		"zookeeper, down":        {"zookeeper://" + user + "127.0.0.1:1", "xxxxx"},
		"memcached, not wanted":  {"memcached://" + user + memcached, "closed: <nil>"},
		"memcached, down":        {"memcached://" + user + "127.0.0.1:1", "opened: coord"},
		"file, not wanted":       {"file://" + user + "host" + t.TempDir() + "?password=" + other, "opened: coord"},
		"memory, not wanted":     {"memory://" + user + "x?password=" + other, "opened: coord"},
		"no such store":          {"mysql://" + user + "h?password=" + other, "opened: coord"},
		"malformed":              {"redis://" + user + "h\x7f?password=" + other, "opened: coord"},
		"malformed port":         {"etcd://" + user + "h:port", "opened: coord"},
		"malformed query":        {"zookeeper://" + user + "h?a=%zz&password=" + other, "opened: coord"},
		"a slash in the secret":  {"redis://u:" + password + "/x@h", "opened: coord"},
		"an unread authority":    {"redis://user:6379?" + password + "@127.0.0.1:1", "an @ behind the hosts"},
		"a secret as the user":   {"redis://" + password + "@127.0.0.1:1", "xxxxx@127.0.0.1:1"},
		"a secret as the path":   {"redis://127.0.0.1:1/" + password, "the number of a database"},
		"a namespace":            {"etcd://127.0.0.1:1//" + password, "namespace: want"},
		"a path of ZooKeeper":    {"zookeeper://127.0.0.1:1//" + password, "path: "},
		"a path of memcached":    {"memcached://127.0.0.1:1/" + password, "a path: want none"},
		"a fragment":             {"redis://127.0.0.1:1#" + password, "a fragment: want none"},
		"an unknown parameter":   {"redis://127.0.0.1:1?" + password, "an unknown parameter: want prefix"},
		"its value":              {"redis://127.0.0.1:1?apikey=" + password, `parameter "apikey"`},
		"of a file store":        {"file:///tmp/no/" + "x?" + password, "a file store has none"},
		"of a memory store":      {"memory://x?" + password + "=1", "a memory store has none"},
		"a host of the password": {"redis://u:x@" + password + "@h", "opened: coord"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSecretsProcess$")
			cmd.Env = append(os.Environ(), envSecretURL+"="+tc.url)
			out, err := cmd.CombinedOutput()
			said := string(out)
			if err != nil || !strings.Contains(said, tc.want) {
				t.Errorf("%v, want %q in\n%s", err, tc.want, said)
			}
			for _, secret := range []string{password, other} {
				if i := strings.Index(said, secret); i >= 0 {
					t.Errorf("it tells %s: …%s…", secret, said[max(0, i-200):min(len(said), i+100)])
				}
			}
		})
	}
}

// Each parameter of a store that holds no secret is shown, and the others are not.
func TestParametersAreShownOrSecret(t *testing.T) {
	for _, scheme := range driver.Schemes() {
		_, _, err := driver.Open(t.Context(), scheme+"://h?nosuch=1")
		if err == nil {
			t.Fatal("a store takes any parameter")
		}
		_, list, ok := strings.Cut(err.Error(), `parameter "nosuch": want prefix, `)
		if !ok {
			continue // it has none
		}
		for name := range strings.SplitSeq(list, ", ") {
			shown := !strings.Contains(driver.RedactURL(scheme+"://h?"+name+"=v"), "xxxxx")
			if secret := name == "sentinel_user" || name == "sentinel_password"; shown == secret {
				t.Errorf("%s: parameter %s: shown: %v", scheme, name, shown)
			}
		}
	}
}
