package zookeeper

import (
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain()
	goleak.VerifyTestMain(m)
}

// testSession is the session timeout of tests: long enough for a busy machine to send signs
// of life, short enough to wait for its end.
const testSession = 1300 * time.Millisecond

// calmSession is that of tests which do not wait for the end of a session: nothing that hangs until then is in time.
const calmSession = time.Minute

// endingSession is that of tests which use a session and then wait for its end: nothing ends it before.
const endingSession = 10 * time.Second

// hung is from when on a call that should end, or be answered, is held to do neither: much longer than a
// machine under load is late.
const hung = 30 * time.Second

func storeURL(addr string) string { return urlWith(addr, testSession) }

func urlWith(addr string, session time.Duration) string {
	return "zookeeper://" + addr + "/coord-test?session_timeout=" + session.String()
}

func urlWithHosts(addrs []string, session time.Duration) string {
	return urlWith(strings.Join(addrs, ","), session)
}

// connect opens a backend that is closed with the test.
func connect(t testing.TB, rawURL string) *backend {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b.(*backend)
}

// open starts a server of its own and connects to it.
func open(t testing.TB, opts ...testserver.Option) (*testserver.Server, *backend) {
	t.Helper()
	srv := testserver.ZooKeeper(t, opts...)
	return srv, connect(t, urlWith(srv.Addr, calmSession))
}

// raw is a connection beside the backend.
func raw(t testing.TB, addr string) *zk.Conn {
	t.Helper()
	return connect(t, urlWith(addr, calmSession)).conn
}

func newID(name string) string {
	var random [16]byte
	rand.Read(random[:])
	return driver.FormatID(name, os.Getpid(), time.Now(), random)
}

func request(name string, ttl time.Duration) driver.Request {
	return driver.Request{ID: newID(name), TTL: ttl}
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
