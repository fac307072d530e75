package memcached

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

func TestParseURL(t *testing.T) {
	u, err := url.Parse("memcacheds://user:pa%40ss@h1,h2:7000?on_missing=empty&timeout=2s&pool_size=7&tls_server_name=other")
	if err != nil {
		t.Fatal(err)
	}
	s, err := parseURL(u)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(s.url.Hosts, " ") != "h1:11211 h2:7000" || s.url.User != "user" || s.url.Password != "pa@ss" ||
		s.url.TLS.ServerName != "other" || s.onMissing != Empty || s.timeout != 2*time.Second || s.pool != 7 {
		t.Errorf("%+v", s)
	}
	u, err = url.Parse("memcached://[::1]")
	if err != nil {
		t.Fatal(err)
	}
	if s, err = parseURL(u); err != nil || s.url.Hosts[0] != "[::1]:11211" || s.onMissing != Full || s.url.TLS != nil {
		t.Errorf("%v %+v", err, s)
	}
}

func TestBadURLs(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://h":                      `scheme "redis"`,
		"memcached:h":                    "store URL",
		"memcached://h/1":                "a path: want none",
		"memcached://h,h":                "given twice",
		"memcached://h?nope=1":           `parameter "nope": want prefix, on_missing`,
		"memcached://h?on_missing=maybe": "want one of full, empty",
		"memcached://h?timeout=6s":       "want a duration from 1ms to 5s",
		"memcached://h?timeout=0":        "want a duration",
		"memcached://h?pool_size=0":      "want 1 to 10000",
		"memcached://h?tls_ca=x":         "want a memcacheds:// URL",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if u.Host != "" {
			u.User = url.UserPassword("user", "secret")
		}
		if _, err := Open(t.Context(), u); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("memcached://user:password@host:11211,h2?timeout=1s&on_missing=empty")
	f.Add("memcacheds://h?tls_insecure=true")
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.Parse(raw)
		if err != nil || strings.Contains(raw, "tls_") {
			return // reads files
		}
		s, err := parseURL(u)
		if err != nil {
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%v is not ErrInvalid", err)
			}
			return
		}
		if len(s.url.Hosts) == 0 || s.timeout <= 0 || s.timeout > maxTimeout || s.pool < 1 {
			t.Errorf("%+v", s)
		}
	})
}

func openURL(t testing.TB, raw string) (*backend, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), u)
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

// use takes and gives back a lock and a permit.
func use(t *testing.T, b *backend) {
	t.Helper()
	r := request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Error(err)
	}
	if one := must[driver.TakenOne](t)(b.TakeOne(t.Context(), "k", limitFrom(t, "5/1m"), driver.Ask{Min: 1, N: 1})); one.N != 1 {
		t.Errorf("%+v", one)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithPassword("secret"))
	b, err := openURL(t, "memcached://"+testserver.MemcachedUser+":secret@"+srv.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if info := b.Info(); info.Name != "memcached" || !strings.HasPrefix(info.Server, "memcached 1.") {
		t.Errorf("%+v", info)
	}
	use(t, b)
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.TryLock(t.Context(), "k", request("a", time.Second)); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	for name, login := range map[string]string{"wrong": testserver.MemcachedUser + ":wrong@", "none": ""} {
		if _, err := openURL(t, "memcached://"+login+srv.Addr); !errors.Is(err, driver.ErrNotSent) || strings.Contains(err.Error(), ":wrong") {
			t.Errorf("%s password: %v", name, err)
		}
	}
	srv.Kill()
	if _, err := openURL(t, "memcached://"+srv.Addr); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("no server: %v", err)
	}
}

func TestOpenTLS(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithTLS())
	base := "memcacheds://" + srv.Addr
	keys := "tls_cert=" + srv.TLS.CertFile + "&tls_key=" + srv.TLS.KeyFile
	b, err := openURL(t, base+"?tls_ca="+srv.TLS.CAFile+"&"+keys)
	if err != nil {
		t.Fatal(err)
	}
	use(t, b)
	for name, query := range map[string]string{
		"unknown authority": "?" + keys,
		"wrong name":        "?tls_server_name=example.org&tls_ca=" + srv.TLS.CAFile + "&" + keys,
		"no certificate":    "?tls_ca=" + srv.TLS.CAFile,
	} {
		if _, err := openURL(t, base+query); !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("%s: %v, want ErrNotSent", name, err)
		}
	}
	if _, err := openURL(t, "memcached://"+srv.Addr); err == nil {
		t.Error("plain, to a server that speaks TLS: no error")
	}
}

// A host that swallows everything: whatever Open waits for there, it ends with its ctx, by deadline
// and by cancellation.
func TestOpenUnreachable(t *testing.T) {
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	addr := hole.Addr().String()
	open := func(user *url.Userinfo) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := Open(ctx, &url.URL{Scheme: "memcached", User: user, Host: addr, RawQuery: "timeout=5s"})
			return err
		}
	}
	for name, call := range map[string]func(context.Context) error{
		"an answer": open(nil),
		"a login":   open(url.UserPassword("user", "secret")),
	} {
		for want, end := range map[error]func() (context.Context, context.CancelFunc){
			context.DeadlineExceeded: func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(t.Context(), 50*time.Millisecond)
			},
			context.Canceled: func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(50*time.Millisecond, cancel)
				return ctx, cancel
			},
		} {
			ctx, cancel := end()
			err := call(ctx) // else it ends with another error, after 5s
			cancel()
			if !errors.Is(err, want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("waiting for %s: %v, want %v", name, err, want)
			}
		}
	}
}

// A client that cannot keep the contract is refused with the remedy.
func TestNewRefuses(t *testing.T) {
	if _, err := New(nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("nil: %v", err)
	}
	client := newClient("127.0.0.1:1")
	for _, d := range []time.Duration{-1, maxTimeout + 1} {
		client.Timeout = d
		if _, err := New(client); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "Timeout") {
			t.Errorf("Timeout %v: %v", d, err)
		}
	}
	client.Timeout = 0 // gomemcache's default
	if _, err := New(client, WithOnMissing(7)); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("OnMissing: %v", err)
	}
	if _, err := New(client); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("no server: %v", err)
	}
}

// A server that evicts is warned of, one with -M is not.
func TestEvictionIsWarnedOf(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]bool{"-M": false, "-v": true} {
		srv := testserver.Memcached(t, testserver.WithFlags(flag))
		log, text := textLogger()
		s, err := parseURL(&url.URL{Scheme: "memcached", Host: srv.Addr})
		if err != nil {
			t.Fatal(err)
		}
		b := must[*backend](t)(newBackend([]Option{WithLogger(log)}))
		b.pools = newPools(s, listLife, dialer{})
		if err := b.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(text.String(), "evicts"); got != want {
			t.Errorf("%s: warned %v, want %v: %s", flag, got, want, text)
		}
		awaitConnections(t, srv, 0)
	}
}

func TestBefore(t *testing.T) {
	for version, want := range map[string]bool{
		"1.6.18": false, "1.4.23": false, "1.4.22": true, "1.3.99": true, "0.9.99": true, "2.0.0": false,
		"1.4.24-beta1": false, "1.4.5_4": true, "": false, "UNKNOWN": false, "1.x.3": false,
	} {
		if got := before(version, minVersion); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}

// Several servers: everything of a name is on one, a server that is down keeps its names, and the
// others serve theirs.
func TestTrap15SeveralServers(t *testing.T) {
	t.Parallel()
	a, c := testserver.Memcached(t, testserver.WithFlags("-M")), testserver.Memcached(t, testserver.WithFlags("-M"))
	b, err := openURL(t, "memcached://"+a.Addr+","+c.Addr)
	if err != nil {
		t.Fatal(err)
	}
	back, err := openURL(t, "memcached://"+c.Addr+","+a.Addr)
	if err != nil {
		t.Fatal(err)
	}
	onA, onC := "", ""
	for _, key := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		r := request("a", time.Minute)
		must[driver.Grant](t)(b.TryLock(t.Context(), key, r))
		if _, err := back.TryLock(t.Context(), key, request("b", time.Minute)); !errors.Is(err, driver.ErrLocked) {
			t.Errorf("%s over the list in another order: %v", key, err)
		}
		must[driver.Grant](t)(back.Renew(t.Context(), key, r))
		addr, err := newServers([]string{a.Addr, c.Addr}).PickServer(nameOf(key).key(lockKind))
		if err != nil {
			t.Fatal(err)
		}
		srv := a
		if addr.String() == c.Addr {
			srv, onC = c, key
		} else {
			onA = key
		}
		for _, kind := range []string{lockKind, fenceKind} {
			if got := srv.Text("get " + nameOf(key).key(kind))[0]; !strings.HasPrefix(got, "VALUE ") {
				t.Errorf("%s of %s is not where it belongs: %q", kind, key, got)
			}
		}
	}
	if onA == "" || onC == "" {
		t.Fatal("one server has all names")
	}
	c.Kill()
	if err := b.Ping(t.Context()); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("Ping with a server down: %v", err)
	}
	for range 3 { // an idle connection may have to break first
		if _, err := b.TryLock(t.Context(), onC, request("b", time.Minute)); err == nil || errors.Is(err, driver.ErrLocked) {
			t.Fatalf("%s, whose server is down: %v", onC, err)
		}
	}
	if _, err := b.TryLock(t.Context(), onA, request("b", time.Minute)); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("%s, whose server is up: %v", onA, err)
	}
}

// A server that takes no more connections says so, and that it has done nothing is certain.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M", "-c", "100"))
	b := must[*backend](t)(openURL(t, "memcached://"+srv.Addr))
	if err := b.pools.to(nameOf("k")).drop(); err != nil {
		t.Fatal(err)
	}
	awaitConnections(t, srv, 0)
	for full := false; !full; {
		conn, err := net.Dial("tcp", srv.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		line, err := command(conn, bufio.NewReader(conn), "version\r\n")
		full = err != nil || strings.HasPrefix(line, "ERROR")
	}
	r := request("a", time.Minute)
	definite := 0
	for range 10 { // a connection may break before the answer is read
		_, err := b.TryLock(t.Context(), "k", r)
		if err == nil {
			t.Fatal("a full server has taken one more connection")
		}
		if errors.Is(err, driver.ErrNotSent) {
			definite++
		}
	}
	if definite == 0 {
		t.Error("no refusal was definite")
	}
}

// Connections that the server has closed while they were idle, as when it restarts, cost no call; and
// those that are good are used again, whatever their last deadline was.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there they are found dead by use")
	}
	for name, opts := range map[string][]testserver.Option{
		"plain": {testserver.WithFlags("-M")}, "TLS": {testserver.WithFlags("-M"), testserver.WithTLS()},
	} {
		t.Run(name, func(t *testing.T) {
			srv := testserver.Memcached(t, opts...)
			raw := "memcached://" + srv.Addr
			if srv.TLS != nil {
				raw = "memcacheds://" + srv.Addr + "?tls_ca=" + srv.TLS.CAFile + "&tls_cert=" + srv.TLS.CertFile + "&tls_key=" + srv.TLS.KeyFile
			}
			b := must[*backend](t)(openURL(t, raw))
			for range 3 {
				use(t, b)
				srv.Restart()
			}
			use(t, b)
			before := srv.Stats()["total_connections"]
			for range 3 {
				for _, c := range b.pools.to(nameOf("k")).idle {
					if err := c.socket.Conn.SetDeadline(past); err != nil {
						t.Fatal(err)
					}
				}
				use(t, b)
			}
			if n := srv.Stats()["total_connections"] - before; n != 1 { // which asks
				t.Errorf("%d connections were made beside the idle one", n-1)
			}
		})
	}
}

// A server that does not answer holds up its own names, and those of no other: calls on them do not
// take the others' connections.
func TestSilentServerHoldsUpItsOwn(t *testing.T) {
	t.Parallel()
	up, silent := testserver.Memcached(t, testserver.WithFlags("-M")), testserver.Memcached(t, testserver.WithFlags("-M"))
	const calls = 3
	b := patient(t, up.Addr+","+silent.Addr, listLife, calls)
	on := map[string]string{}
	for i := 0; len(on) < 2; i++ {
		key := fmt.Sprint("k", i)
		on[b.pools.servers.pick(nameOf(key).enc).addr] = key
	}
	r := request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), on[up.Addr], r))
	silent.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			if _, err := b.TryLock(ctx, on[silent.Addr], r); !errors.Is(err, context.Canceled) {
				t.Errorf("on the silent server: %v", err)
			}
		})
	}
	underWay(b.pools.to(nameOf(on[silent.Addr])), calls)
	if _, err := b.Renew(t.Context(), on[up.Addr], r); err != nil {
		t.Errorf("on the other: %v", err)
	}
	within, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if _, err := b.Inspect(within, on[silent.Addr]); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("one call too many on the silent server: %v, want ErrNotSent", err)
	}
	cancel()
	wg.Wait()
	silent.Resume()
}

// Close over the application's client leaves it open, and ends what is under way.
func TestCloseLeavesTheClient(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	srv.Pause()
	begun, done := make(chan struct{}), make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		close(begun)
		done <- b.Ping(ctx)
	}()
	<-begun
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the call under way has no error")
	}
	srv.Resume()
	if err := b.client.Set(&memcache.Item{Key: "k", Value: []byte("v"), Expiration: 10}); err != nil {
		t.Errorf("the application's client: %v", err)
	}
}

// underWay waits until so many calls are under way on connections to one server.
func underWay(p *pool, calls int) {
	for active := 0; active < calls; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		active = len(p.active)
		p.mu.Unlock()
	}
}

// Close over connections of its own ends a call under way at once, and leaves no connection.
func TestCloseEndsCalls(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	b := patient(t, srv.Addr, listLife, defaultPool)
	r := request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	srv.Pause()
	errs := make(chan error, 2)
	go func() {
		ctx := driver.NewBound(context.Background(), 4*hung)
		defer ctx.Stop()
		_, err := b.Renew(ctx, "k", r)
		errs <- err
	}()
	go func() {
		_, err := b.TakeOne(context.Background(), "k", limitFrom(t, "5/1m"), driver.Ask{Min: 1, N: 1})
		errs <- err
	}()
	underWay(b.pools.to(nameOf("k")), 2)
	start := time.Now()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-errs; err == nil {
			t.Error("a call under way has no error")
		}
	}
	if d := time.Since(start); d > hung { // their own timeout is later
		t.Errorf("calls under way ended %v after Close", d)
	}
	srv.Resume()
	awaitConnections(t, srv, 0)
}

// ownConnections are those that a server counts by itself, and the one that asks it.
const ownConnections = 3

// awaitConnections waits until clients have at most so many connections to the server.
func awaitConnections(t *testing.T, srv *testserver.Server, most int64) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		n := srv.Stats()["curr_connections"] - ownConnections
		if n <= most {
			return
		}
		if time.Since(start) > hung {
			t.Fatalf("%d connections are left, want %d", n, most)
		}
	}
}

// Connections that a burst of calls has made are closed when nobody uses them: the server has places for
// so many only, and other clients want some.
func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	const burst = 40
	clients := []*backend{patient(t, srv.Addr, 3*time.Second, burst), patient(t, srv.Addr, 3*time.Second, burst)}
	srv.Pause()
	var wg sync.WaitGroup
	for _, b := range clients {
		for i := range burst {
			wg.Go(func() {
				// Whether it is granted depends on which client is served first.
				_, _ = b.TryLock(t.Context(), fmt.Sprint("k", i), request("a", time.Minute))
			})
		}
		underWay(b.pools.to(nameOf("k")), burst)
	}
	srv.Resume()
	wg.Wait()
	awaitConnections(t, srv, int64(len(clients)))
	for _, b := range clients {
		use(t, b)
	}
}
