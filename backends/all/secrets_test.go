package all_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord"
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
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	tell := func(what string, err error) { fmt.Fprintf(os.Stderr, "%s: %v | %+v | %#v\n", what, err, err, err) }
	client, err := coord.Open(ctx, url, coord.WithObserver(coord.Observer{
		StoreCalled: func(_ context.Context, e coord.StoreCall) { fmt.Fprintf(os.Stderr, "called: %+v\n", e) },
	}))
	tell("opened", err)
	if err != nil {
		return
	}
	fmt.Fprintf(os.Stderr, "info: %+v\n", client.Info())
	l, err := client.TryLock(ctx, "k")
	tell("locked", err)
	if err == nil {
		tell("unlocked", l.Unlock(ctx))
	}
	_, err = client.Allow(ctx, "k", coord.PerSecond(1))
	tell("allowed", err)
	tell("pinged", client.Ping(ctx))
	tell("closed", client.Close())
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
		"redis, right":           {"redis://:" + password + "@" + right, "unlocked: <nil>"},
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
