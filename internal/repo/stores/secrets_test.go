package stores

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

type environ map[string]string

func (e environ) lookup(name string) (string, bool) { v, ok := e[name]; return v, ok }

// file writes a file of that text and gives its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "coord.yaml")
	write(t, path, text)
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

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
	for _, scheme := range driver.Schemes() {
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
