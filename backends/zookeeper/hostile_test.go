package zookeeper

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// put makes a node of somebody else's, and its parents.
func put(t testing.TB, b *backend, path, data string, flags int32) {
	t.Helper()
	if err := b.makePath(path[:strings.LastIndexByte(path, '/')]); err != nil {
		t.Fatal(err)
	}
	if _, err := b.conn.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
}

// untouched fails the test unless a node is as it was put.
func untouched(t testing.TB, b *backend, path, data string) {
	t.Helper()
	got, stat, err := b.conn.Get(path)
	if err != nil || string(got) != data || stat.Version != 0 {
		t.Errorf("%s: %q, version %d, %v: want it untouched", path, got, stat.Version, err)
	}
}

// What is not ours is an error, and stays as it is.
func TestForeignLocks(t *testing.T) {
	_, b := open(t)
	ctx := t.Context()
	put(t, b, b.lockDir("data"), "theirs", 0)
	put(t, b, b.lockDir("ephemeral"), "", zk.FlagEphemeral)
	for _, key := range []string{"data", "ephemeral"} {
		for what, call := range map[string]func() error{
			"TryLock": func() error { _, err := b.TryLock(ctx, key, request("a", testSession)); return err },
			"Lock":    func() error { _, err := b.Lock(ctx, key, request("a", testSession), func() {}); return err },
		} {
			if err := call(); !errors.Is(err, driver.ErrCorrupt) {
				t.Errorf("%s of %s: %v, want ErrCorrupt", what, key, err)
			}
		}
	}
	untouched(t, b, b.lockDir("data"), "theirs")
	untouched(t, b, b.lockDir("ephemeral"), "")

	// A node in our queue that is named as ours, with other data.
	isFree(t, b, "k")
	fake := b.lockDir("k") + "/" + node("x", 0)
	put(t, b, fake, "not the id", 0)
	if _, err := b.Inspect(ctx, "k"); !errors.Is(err, driver.ErrCorrupt) {
		t.Errorf("Inspect: %v, want ErrCorrupt", err)
	}
	if _, err := b.TryLock(ctx, "k", request("a", testSession)); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("TryLock behind it: %v, want ErrLocked", err)
	}
	untouched(t, b, fake, "not the id")
}

func TestForeignLimits(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	ctx, l := t.Context(), limitOf(t, "10/1h")
	for name, data := range map[string]string{"empty": "", "text": "not the state of a limit", "short": "\x01\x00", "state": "\x01\x00\x00\x00\x00\x00\x00\x00\x00junk", "time": "\x01\xff\x00\x00\x00\x00\x00\x00\x00"} {
		dir := b.limitPath(name, l)
		path := dir + "/0123456789abcdef"
		put(t, b, path, data, 0)
		for what, call := range map[string]func() error{
			"Take":    func() error { _, err := b.TakeOne(ctx, name, l, driver.Ask{Min: 1, N: 1}); return err },
			"Peek":    func() error { _, err := b.TakeOne(ctx, name, l, driver.Ask{}); return err },
			"Reset":   func() error { return b.Reset(ctx, name, l) },
			"Refund":  func() error { return b.Refund(ctx, name, l, "id", 1) },
			"TakeAll": func() error { _, err := b.TakeAll(ctx, []driver.Demand{{Key: name, Limit: l, N: 1}}); return err },
		} {
			if err := call(); !errors.Is(err, driver.ErrCorrupt) {
				t.Errorf("%s of %s: %v, want ErrCorrupt", what, name, err)
			}
		}
		untouched(t, b, path, data)
		bucket := bucketOf(dir[strings.LastIndexByte(dir, '/')+1:])
		if n, err := b.collect(ctx, leaderNow(t, b), bucket); n != 0 || err != nil {
			t.Errorf("the collector removed %d, %v", n, err)
		}
		untouched(t, b, path, data)
	}
}

// A limit's node has one child that is named as ours, and no data.
func TestForeignNodesOfLimits(t *testing.T) {
	_, b := open(t)
	l := limitOf(t, "10/1h")
	for name, nodes := range map[string]map[string]string{
		"none":  {"": ""},
		"data":  {"": "theirs"},
		"named": {"/theirs": "theirs"},
		"two":   {"/0123456789abcdef": "theirs", "/0123456789abcde0": "theirs"},
	} {
		dir := b.limitPath(name, l)
		for child, data := range nodes {
			put(t, b, dir+child, data, 0)
		}
		if _, err := b.TakeOne(t.Context(), name, l, driver.Ask{Min: 1, N: 1}); !errors.Is(err, driver.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
		bucket := bucketOf(dir[strings.LastIndexByte(dir, '/')+1:])
		if n, err := b.collect(t.Context(), leaderNow(t, b), bucket); n != 0 || err != nil {
			t.Errorf("%s: the collector removed %d, %v", name, n, err)
		}
		for child, data := range nodes {
			untouched(t, b, dir+child, data)
		}
	}
}

func TestForeignRoot(t *testing.T) {
	srv, b := open(t)
	theirs := rootOf(t) + "/theirs"
	put(t, b, theirs+"/limits", "theirs", 0)
	u, err := url.Parse("zookeeper://" + srv.Addr + theirs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), u); !errors.Is(err, driver.ErrCorrupt) {
		t.Errorf("Open: %v, want ErrCorrupt", err)
	}
	untouched(t, b, theirs+"/limits", "theirs")
	leaf := rootOf(t) + "/leaf"
	put(t, b, leaf, "", zk.FlagEphemeral)
	if u, err = url.Parse("zookeeper://" + srv.Addr + leaf); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), u); err == nil || !strings.Contains(err.Error(), "ephemeral") {
		t.Errorf("Open under an ephemeral node: %v", err)
	}
}

// With credentials only their owner may touch what is stored, and who may not is told.
func TestCredentials(t *testing.T) {
	t.Parallel()
	srv, world := open(t)
	at := func(user string) string {
		return "zookeeper://" + user + srv.Addr + rootOf(t) + "/private?session_timeout=" + calmSession.String()
	}
	b := connect(t, at("me:secret@"))
	isFree(t, b, "k")
	acl, _, err := b.conn.GetACL(b.lockDir("k"))
	if err != nil || len(acl) != 1 || acl[0].Scheme != "digest" || !strings.HasPrefix(acl[0].ID, "me:") || acl[0].Perms != zk.PermAll {
		t.Errorf("ACL %+v, %v", acl, err)
	}
	if _, _, err := world.conn.Get(b.lockDir("k")); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a reader without credentials: %v", err)
	}
	for _, user := range []string{"", "me:hunter2@", "you:secret@"} {
		u, err := url.Parse(at(user))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), u)
		if !errors.Is(err, zk.ErrNoAuth) || !errors.Is(err, driver.ErrNotSent) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Open as %q: %v, want ErrNoAuth", user, err)
		}
	}
	// The credentials outlive the connection.
	b.wire.cut()
	isFree(t, b, "k2")
	must[driver.TakenOne](t)(b.TakeOne(t.Context(), "l", limitOf(t, "3/1h"), driver.Ask{Min: 1, N: 1}))
}

// Rights that are taken away later are a refusal, and no unknown outcome.
func TestNoRights(t *testing.T) {
	_, b := open(t)
	isFree(t, b, "k")
	l := limitOf(t, "3/1h")
	one := driver.Ask{Min: 1, N: 1}
	must[driver.TakenOne](t)(b.TakeOne(t.Context(), "l", l, one))
	for _, path := range []string{b.lockDir("k"), must[string](t)(b.incarnation(b.limitPath("l", l)))} {
		if _, err := b.conn.SetACL(path, zk.DigestACL(zk.PermAll, "root", "x"), -1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.TryLock(t.Context(), "k", request("a", testSession)); !errors.Is(err, zk.ErrNoAuth) || !driver.Definite(err) {
		t.Errorf("TryLock: %v", err)
	}
	if _, err := b.TakeOne(t.Context(), "l", l, one); !errors.Is(err, zk.ErrNoAuth) || !driver.Definite(err) {
		t.Errorf("Take: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse("zookeeper://me:secret@" + addr + "?dial_timeout=1h")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*hung)
	defer cancel()
	start := time.Now()
	_, err = Open(ctx, u)
	if !errors.Is(err, driver.ErrNotSent) || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "secret") {
		t.Errorf("Open: %v, want to hear that the connection was refused", err)
	}
	if took := time.Since(start); took > hung {
		t.Errorf("it took %v, want it to fail at once", took)
	}
	gone, stop := context.WithCancel(ctx)
	stop()
	if _, err := Open(gone, u); !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, context.Canceled) {
		t.Errorf("under a ctx that has ended: %v", err)
	}
}

// A server that is slow to answer a handshake, or closes connections as one in an
// election does, is tried again until dial_timeout is over.
func TestOpenIsPatient(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	for what, d := range map[string]deed{"silent": hold, "closing": cut} {
		t.Run(what, func(t *testing.T) {
			p := newTap(t, srv.Addr)
			handshakes := 0
			p.disturb(func(op int32) deed {
				if op == opConnect {
					if handshakes++; handshakes <= 2 || handshakes == 4 {
						return d
					}
				}
				if op == opSet && handshakes == 3 { // between handshake and the end of Open
					return cut
				}
				return pass
			})
			isFree(t, connect(t, urlWith(t, p.addr(), time.Second)), "k")
			p.disturb(func(int32) deed { return d })
			u, err := url.Parse(urlWith(t, p.addr(), time.Second) + "&dial_timeout=500ms")
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			_, err = Open(t.Context(), u)
			if took := time.Since(start); !errors.Is(err, driver.ErrNotSent) || took < 500*time.Millisecond || took > hung {
				t.Errorf("after %v: %v, want ErrNotSent when dial_timeout is over", took, err)
			}
		})
	}
}

// A server that goes fails calls at once, and is used again when it is back.
func TestServerGoesAndComesBack(t *testing.T) {
	srv := testserver.ZooKeeper(t, testserver.Durable())
	b := connect(t, storeURL(t, srv.Addr))
	isFree(t, b, "k")
	srv.Kill()
	eventually(t, "calls to fail at once", func() bool {
		start := time.Now()
		_, err := b.TryLock(t.Context(), "k", request("a", testSession))
		return errors.Is(err, driver.ErrNotSent) && time.Since(start) < 50*time.Millisecond
	})
	srv.Restart()
	eventually(t, "a connection", func() bool { return b.Ping(t.Context()) == nil })
	isFree(t, b, "k")
}

// A server that has lost everything is used again: the library alone would show it, for
// ever, a transaction that it has never seen.
func TestWipedServerIsUsedAgain(t *testing.T) {
	srv := testserver.ZooKeeper(t)
	b := connect(t, storeURL(t, srv.Addr))
	for range 20 {
		isFree(t, b, "k")
	}
	srv.Wipe()
	eventually(t, "a session with the new server", func() bool { return b.Ping(t.Context()) == nil })
	isFree(t, b, "k")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	srv := testserver.ZooKeeper(t, testserver.WithTLS())
	params := "?session_timeout=5s&tls_ca=" + srv.TLS.CAFile
	pair := "&tls_cert=" + srv.TLS.CertFile + "&tls_key=" + srv.TLS.KeyFile
	b := connect(t, "zookeepers://"+srv.Addr+"/tls"+params+pair)
	isFree(t, b, "k")
	if b.Info().Server != "ZooKeeper 3.8.0" && !strings.HasPrefix(b.Info().Server, "ZooKeeper ") || !b.alone.Load() {
		t.Errorf("server %q, alone %v", b.Info().Server, b.alone.Load())
	}
	for what, raw := range map[string]string{
		"an unknown authority":     "zookeepers://" + srv.Addr + "/tls?session_timeout=5s",
		"no client certificate":    "zookeepers://" + srv.Addr + "/tls" + params,
		"another name":             "zookeepers://" + srv.Addr + "/tls" + params + pair + "&tls_server_name=elsewhere",
		"no TLS to a TLS port":     "zookeeper://" + srv.Addr + "/tls?session_timeout=5s&dial_timeout=500ms",
		"TLS to nobody in special": "zookeepers://127.0.0.1:1/tls" + params + pair,
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), hung)
		_, err = Open(ctx, u)
		if !errors.Is(err, driver.ErrNotSent) || ctx.Err() != nil {
			t.Errorf("%s: %v, want it refused before ctx ends", what, err)
		}
		cancel()
	}
}

func TestOpenRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		"zookeeper://h?session_timeout=1ms":   "want a duration from 200ms",
		"zookeeper://h?ttl=1s":                `parameter "ttl": want prefix, dial_timeout, session_timeout`,
		"zookeeper://h/zookeeper":             "the server's own",
		"zookeeper://h/a//b":                  "want components",
		"zookeeper://a%3Ab:c@h":               "want none with a colon",
		"zookeeper://h?tls_ca=/x":             "want a zookeepers:// URL",
		"zookeeper://u:verysecret@h,h:2181/p": "given twice",
		"zookeeper://u:verysecret@h/p%00":     "want characters that ZooKeeper allows",
		"zookeeper:///p":                      "want a form like",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), u)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "verysecret") {
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
	}
}

func TestRegistered(t *testing.T) {
	srv := shared(t)
	c := must[*coord.Client](t)(coord.Open(t.Context(), "zookeeper://"+srv.Addr+"?prefix=p-"))
	l := must[*coord.Lock](t)(c.Lock(t.Context(), "k"))
	if l.TTL() != defaultSession {
		t.Errorf("TTL %v, want the session's %v", l.TTL(), defaultSession)
	}
	if err := errors.Join(l.Unlock(t.Context()), c.Close()); err != nil {
		t.Error(err)
	}
}
