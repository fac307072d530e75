package etcd

import (
	"context"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

func openURL(t *testing.T, ctx context.Context, raw string) (*backend, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(ctx, u)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b.(*backend), nil
}

// notOpened opens a store that cannot be opened, under a context that ends after d. That is told in the
// caller's time: the dial_timeout of raw is an hour.
func notOpened(t *testing.T, what, raw string, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	start := time.Now()
	if _, err := openURL(t, ctx, raw); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("%s: %v, want an error that says nothing was done", what, err)
	}
	if took := time.Since(start); took > hung {
		t.Errorf("%s: told after %v", what, took)
	}
}

func TestParseURL(t *testing.T) {
	u, err := url.Parse("etcds://me:secret@h1,h2:7/prod/app?dial_timeout=2s&tls_insecure=true")
	if err != nil {
		t.Fatal(err)
	}
	cfg, read, err := parseURL(u)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(cfg.Endpoints, []string{"https://h1:2379", "https://h2:7"}) || cfg.Username != "me" || cfg.Password != "secret" {
		t.Errorf("%v %q %q", cfg.Endpoints, cfg.Username, cfg.Password)
	}
	if read.Path != "prod/app" || cfg.DialTimeout != 2*time.Second || cfg.TLS == nil || !cfg.TLS.InsecureSkipVerify {
		t.Errorf("namespace %q, timeout %v, TLS %v", read.Path, cfg.DialTimeout, cfg.TLS)
	}
}

func TestParseURLRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://h":                `scheme "redis"`,
		"etcd://h?colour=red":      `parameter "colour"`,
		"etcd://h?dial_timeout=2":  "want a duration",
		"etcd://h?tls_ca=x":        "want a etcds:// URL",
		"etcd://me@h":              "want a user with a password, or neither",
		"etcd://:zzsecretzz@h":     "want a user with a password, or neither",
		"etcd://h/a//b":            "want segments",
		"etcd://h/a/coord/b":       `not "coord"`,
		"etcd://h/coord":           `not "coord"`,
		"etcd://h/a/":              "want segments",
		"etcd://u:zzsecretzz@h:0/": `port "0"`,
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = parseURL(u)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "zzsecretzz") {
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, err := openURL(t, t.Context(), "etcd://"+srv.Addr+"/prod/app")
	if err != nil {
		t.Fatal(err)
	}
	if info := b.Info(); info.Name != "etcd" || !strings.HasPrefix(info.Server, "etcd 3.") || info.MinTTL < time.Second || info.TTLStep != time.Second {
		t.Errorf("%+v", info)
	}
	r := request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	if n := entriesOf(t, b.client, "prod/app/coord/lock/k/").Count; n != 1 {
		t.Errorf("%d entries where the namespace says", n)
	}
	// Another namespace shares nothing, though the key begins with the first.
	other, err := openURL(t, t.Context(), "etcd://"+srv.Addr+"/prod")
	if err != nil {
		t.Fatal(err)
	}
	must[driver.Grant](t)(other.TryLock(t.Context(), "k", request("b", time.Minute)))
	if err := b.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	// And through coord.Open, which the package has registered itself with.
	c, err := coord.Open(t.Context(), "etcd://"+srv.Addr+"?prefix=p/")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenTLS(t *testing.T) {
	t.Parallel()
	srv := testserver.Etcd(t, testserver.WithTLS())
	files := "?tls_ca=" + srv.TLS.CAFile + "&tls_cert=" + srv.TLS.CertFile + "&tls_key=" + srv.TLS.KeyFile
	b, err := openURL(t, t.Context(), "etcds://"+srv.Addr+"/"+files)
	if err != nil {
		t.Fatal(err)
	}
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", request("a", time.Minute)))
	for name, raw := range map[string]string{
		"an unknown authority":  "etcds://" + srv.Addr + "?dial_timeout=1h",
		"no client certificate": "etcds://" + srv.Addr + "?dial_timeout=1h&tls_ca=" + srv.TLS.CAFile,
		"another name":          "etcds://" + srv.Addr + files + "&dial_timeout=1h&tls_server_name=elsewhere.example",
		"no TLS":                "etcd://" + srv.Addr + "?dial_timeout=1h",
	} {
		notOpened(t, name, raw, 2*time.Second)
	}
}

func TestOpenPassword(t *testing.T) {
	t.Parallel()
	srv := testserver.Etcd(t, testserver.WithPassword("secret"))
	srv.AddUser("app", "pass", "mine/")
	b, err := openURL(t, t.Context(), "etcd://root:secret@"+srv.Addr)
	if err != nil {
		t.Fatal(err)
	}
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", request("a", time.Minute)))
	for _, user := range []string{"root:wrongpassword@", "nobody:wrongpassword@", ""} {
		_, err := openURL(t, t.Context(), "etcd://"+user+srv.Addr)
		if !errors.Is(err, driver.ErrNotSent) || strings.Contains(err.Error(), "wrongpassword") {
			t.Errorf("user %q: %v, want an error that says nothing was done, without the password", user, err)
		}
	}
	// A user who may do only what is under a prefix.
	mine, err := openURL(t, t.Context(), "etcd://app:pass@"+srv.Addr+"/mine")
	if err != nil {
		t.Fatal(err)
	}
	r := request("a", time.Minute)
	must[driver.Grant](t)(mine.TryLock(t.Context(), "k", r))
	must[driver.Grant](t)(mine.Renew(t.Context(), "k", r))
	if err := mine.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Error(err)
	}
	if _, err := openURL(t, t.Context(), "etcd://app:pass@"+srv.Addr+"/other"); !errors.Is(err, driver.ErrNotSent) || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("where the user has no rights: %v", err)
	}
}

// A token of a user with a password ends; the client gets another one, within the call.
func TestTokenExpires(t *testing.T) {
	t.Parallel()
	const life = 2 * time.Second // far more than a busy machine needs from the check of the password to the call
	srv := testserver.Etcd(t, testserver.WithPassword("secret"), testserver.WithFlags("--auth-token-ttl", "2"))
	b, err := openURL(t, t.Context(), "etcd://root:secret@"+srv.Addr)
	if err != nil {
		t.Fatal(err)
	}
	within := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), hung)
		t.Cleanup(cancel)
		return ctx
	}
	r := request("a", time.Minute)
	g := must[driver.Grant](t)(b.TryLock(within(), "k", r))
	time.Sleep(2 * life) // the subject: nobody uses the token for longer than it lives
	again := must[driver.Grant](t)(b.Renew(within(), "k", r))
	if again.Token != g.Token {
		t.Errorf("token %d: want %d", again.Token, g.Token)
	}
	if err := b.Unlock(within(), "k", r.ID); err != nil {
		t.Error(err)
	}
}

// Nobody listens, and nobody answers: both are told within the caller's time.
func TestOpenUnreachable(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := closed.Addr().String()
	closed.Close()
	for _, addr := range []string{gone, silent.Addr().String(), "root:secret@" + silent.Addr().String()} {
		notOpened(t, addr, "etcd://"+addr+"?dial_timeout=1h", 500*time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := openURL(t, ctx, "etcd://"+gone); !errors.Is(err, context.Canceled) || !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("under an ended context: %v", err)
	}
}

// The context ends while the client is made, in which the login succeeds all the same.
func TestDialWhoseContextEndsDuringTheLogin(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cfg := clientConfig("127.0.0.1:1") // nothing is sent there
	cfg.Username, cfg.Password = "root", "secret"
	cfg.DialOptions = []grpc.DialOption{
		grpc.WithUnaryInterceptor(func(call context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			cancel()
			<-call.Done()
			return nil
		}),
	}
	client, err := dial(ctx, cfg)
	if client != nil || !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, context.Canceled) {
		t.Errorf("client %v, error %v, want none, and that the context has ended", client, err)
	}
}

// Once the client knows that the server is away nothing is sent, and the calls say so.
func TestServerAwayIsNotSent(t *testing.T) {
	t.Parallel()
	srv, b := own(t)
	r := request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	srv.Kill()
	// The first calls may still go out on the connection that breaks.
	until(t, hung, "an Unlock to find no connection", func() bool {
		return errors.Is(b.Unlock(t.Context(), "k", r.ID), driver.ErrNotSent)
	})
	until(t, hung, "a TryLock to find no connection", func() bool {
		_, err := b.TryLock(t.Context(), "other", request("b", time.Minute))
		return errors.Is(err, driver.ErrNotSent)
	})
}

// A read is told at once that the server is away, whatever retries the application's client has.
func TestReadWhileServerIsAway(t *testing.T) {
	t.Parallel()
	srv := testserver.Etcd(t)
	cfg := clientConfig(srv.Addr)
	cfg.MaxUnaryRetries = 0 // the client library's default, a hundred
	b := connectWith(t, cfg)
	srv.Kill()
	until(t, hung, "a read to find no connection", func() bool {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return errors.Is(b.Ping(ctx), driver.ErrNotSent) && time.Since(start) < time.Second
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	if _, err := New(nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("nil client: %v", err)
	}
	closed := must[*clientv3.Client](t)(clientv3.New(clientConfig(srv.Addr)))
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := New(closed); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "make a new one") {
		t.Errorf("closed client: %v", err)
	}
	client := raw(t, srv.Addr)
	if _, err := New(client, WithNamespace("a//b")); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("namespace: %v", err)
	}
	client.SetEndpoints()
	if _, err := New(client); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "Endpoints") {
		t.Errorf("no endpoint: %v", err)
	}
}

// Close leaves the application's client open, and gives back what is held.
func TestCloseLeavesTheClientOpen(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	client := raw(t, srv.Addr)
	b := must[driver.Backend](t)(New(client, WithNamespace(testserver.NameOf(t))))
	l := b
	must[driver.Grant](t)(l.TryLock(t.Context(), "k", request("a", time.Minute)))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if n := entriesOf(t, client, testserver.NameOf(t)+"/coord/lock/k/").Count; n != 1 {
		t.Errorf("%d entries after Close, want the hold that nobody has given back", n)
	}
	if _, err := l.TryLock(t.Context(), "k", request("a", time.Second)); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("TryLock after Close: %v", err)
	}
}

func TestServerVersion(t *testing.T) {
	for version, want := range map[string]string{"3.4.23": "etcd 3.4.23", "3.7.0-rc.1": "etcd 3.7.0-rc.1", "4.0.0": "etcd 4.0.0", "odd": "etcd odd"} {
		if got, err := serverVersion(version); got != want || err != nil {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
	if _, err := serverVersion("3.3.27"); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "3.4") {
		t.Errorf("3.3.27: %v", err)
	}
}
