package config_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/internal/testserver"
)

// A password is anything that can be typed.
const hard = `p@ss/w:rd %41+&?#"\ü`

// A password comes from the environment or from a file to a real store, which wants it.
func TestSecretsReachTheStore(t *testing.T) {
	addr := testserver.Redis(t, testserver.WithPassword(hard)).Addr
	secret := filepath.Join(t.TempDir(), "password")
	write(t, secret, hard+"\n")
	for _, reference := range []string{"${REDIS_PASSWORD}", "${file:" + secret + "}"} {
		c, err := config.LoadEnv(t.Context(), file(t, "url: 'redis://:"+reference+"@"+addr+"'\n"), environ{"REDIS_PASSWORD": hard}.lookup)
		if err != nil {
			t.Fatal(err)
		}
		client, err := c.Open(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", reference, err)
		}
		if err := client.Ping(t.Context()); err != nil {
			t.Errorf("%s: %v", reference, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSecretsMissing(t *testing.T) {
	dir := t.TempDir()
	empty, large := filepath.Join(dir, "empty"), filepath.Join(dir, "large")
	write(t, empty, "\r\n")
	write(t, large, strings.Repeat("s3cret", 20000))
	for reference, want := range map[string]string{
		"${NOSUCH}":               "${NOSUCH}: not set in the environment",
		"${EMPTY}":                "${EMPTY}: not set in the environment",
		"${file:" + dir + "/no}":  "${file:" + dir + "/no}: open " + dir + "/no: no such file or directory",
		"${file:" + empty + "}":   "${file:" + empty + "}: the file is empty",
		"${file:" + large + "}":   "${file:" + large + "}: read " + large + ": more than 65536 bytes",
		"s3cret${PART}${NOSUCH}x": "${NOSUCH}: not set in the environment",
	} {
		env := environ{"EMPTY": "", "PART": "s3cret"}
		path := file(t, "prefix: a/\nurl: 'redis://u:"+reference+"@h'\n")
		c, err := config.LoadEnv(t.Context(), path, env.lookup)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Open(t.Context()); err == nil || err.Error() != path+":2: url: "+want {
			t.Errorf("%s\n got: %v\nwant: %s", reference, err, want)
		}
		env[config.EnvURL] = "redis://u:" + reference + "@h"
		if c, err = config.LoadEnv(t.Context(), path, env.lookup); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Open(t.Context()); err == nil || err.Error() != "COORD_URL: "+want {
			t.Errorf("%s\n got: %v\nwant: COORD_URL: %s", reference, err, want)
		}
	}
}

func TestURLHidesSecrets(t *testing.T) {
	for url, want := range map[config.URL]string{
		"":                                       "",
		"memory://":                              "memory://",
		"redis://u:s3cret@h:1/0":                 "redis://xxxxx@h:1/0",
		"redis://h?db=1&apikey=s3cret":           "redis://h?xxxxx",
		"redis://u:s3cret@h:bad":                 "redis://xxxxx",
		"redis://u:${A}@[::1],h:7/?token=s3cret": "redis://xxxxx@[::1],h:7/?xxxxx",
		"u:s3cret@h":                             "xxxxx",
		"redis://u:${A}@h/1?client_name=ok":      "redis://xxxxx@h/1?client_name=ok",
		"redis://u:s3cret${A}@h":                 "redis://xxxxx@h",
		"redis://u:${s3cret@h":                   "redis://xxxxx",
		"redis://${A}?prefix=${B}":               "redis://${A}?prefix=${B}",
	} {
		text, err := url.MarshalText()
		if err != nil {
			t.Error(err)
		}
		for _, got := range []string{url.String(), string(text), fmt.Sprint(url), fmt.Sprintf("%+v", url)} {
			if got != want {
				t.Errorf("%q is printed as %q, want %q", string(url), got, want)
			}
		}
	}
}

// syncBuffer collects what several goroutines print, and what the client library of Redis
// logs.
type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *syncBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func (b *syncBuffer) Printf(_ context.Context, format string, v ...any) {
	fmt.Fprintf(b, format+"\n", v...)
}

type discard struct{}

func (discard) Printf(context.Context, string, ...any) {}

// Nothing that the package or an opening of a store prints, logs or returns has the
// secret, wherever it came from.
func TestSecretsAreNotShown(t *testing.T) {
	secret := "s3cret-" + strings.Repeat("z", 8)
	path := filepath.Join(t.TempDir(), "password")
	write(t, path, secret)
	env := environ{"PASSWORD": secret, "BOTH": "redis://u:" + secret + "@127.0.0.1:1"}
	var out syncBuffer
	redis.SetLogger(&out)
	defer redis.SetLogger(discard{})
	logger := coord.WithLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	show := func(v any) {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			fmt.Fprintf(&out, format+"\n", v)
		}
		if text, err := json.Marshal(v); err == nil {
			out.Write(text)
		}
	}
	for _, scheme := range coord.Schemes() {
		for _, password := range []string{secret, "${PASSWORD}", "${file:" + path + "}", "x${PASSWORD}"} {
			store := scheme + "://u:" + password + "@127.0.0.1:1"
			for _, text := range []string{
				"url: '" + store + "/0'",
				"url: '" + store + "/0?sentinel_password=" + password + "'",
				"url: '" + store + "?nosuch=1'",
				"url: {locks: 'memory://', limits: '" + store + "'}",
				"url: {limits: '" + store + "', locks: 'nosuch://'}",
				"url: '" + store + "/?prefix=a'\nprefix: b",
				"url: '" + store + "'\nrules: [{name: a, limits: [b]}]",
				"lock: {ttl: '" + store + "'}",
				"prefix: ['" + store + "']",
				"'" + store + "': 1",
			} {
				// Nobody listens there.
				ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
				c, err := config.LoadEnv(t.Context(), file(t, text), env.lookup)
				show(err)
				if err == nil {
					show(c)
					show(*c)
					show(c.Values())
					client, err := c.Open(ctx, logger)
					show(err)
					if err == nil {
						show(client.Info())
						show(client.Reload(ctx))
						if err := client.Close(); err != nil {
							t.Error(err)
						}
					}
					if err := c.SetURL("--url", env["BOTH"]); err == nil {
						show(c)
						show(c.Values())
					} else {
						show(err)
					}
				}
				cancel()
			}
		}
	}
	text := out.text()
	if len(text) < 10000 {
		t.Fatalf("only %d bytes were printed: this proves nothing", len(text))
	}
	for _, form := range []string{secret, url.QueryEscape(secret), fmt.Sprint([]byte(secret)), fmt.Sprintf("%x", secret)} {
		if i := strings.Index(text, form); i >= 0 {
			t.Errorf("the secret is shown: %q", text[max(0, i-300):min(len(text), i+50)])
		}
	}
}
