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
	goleak.VerifyTestMain(everybody.Main(m))
}

// everybody is the server of all tests that disturb nobody.
var everybody testserver.Shared

// shared gives that server. Each test has a root of its own there.
func shared(t testing.TB) *testserver.Server {
	t.Helper()
	return everybody.Use(t, func(t testing.TB) *testserver.Server { return testserver.ZooKeeper(t) })
}

// rootOf is the root of a test's own.
func rootOf(t testing.TB) string { return "/" + testserver.NameOf(t) }

// testSession is the session timeout of tests: long enough for a busy machine to send signs
// of life, short enough to wait for its end.
const testSession = 1300 * time.Millisecond

// calmSession is that of tests which do not wait for the end of a session: nothing that hangs until then is in time.
const calmSession = time.Minute

// endingSession is that of tests which use a session and then wait for its end: nothing ends it before.
const endingSession = 30 * time.Second

// hung is from when on a call that should end, or be answered, is held to do neither: much longer than a
// machine under load is late.
const hung = time.Minute

func storeURL(t testing.TB, addr string) string { return urlWith(t, addr, testSession) }

// urlWith is the URL of the test's own store at a server.
func urlWith(t testing.TB, addr string, session time.Duration) string {
	return "zookeeper://" + addr + rootOf(t) + "?session_timeout=" + session.String()
}

func urlWithHosts(t testing.TB, addrs []string, session time.Duration) string {
	return urlWith(t, strings.Join(addrs, ","), session)
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

// open connects to the server that tests share.
func open(t testing.TB) (*testserver.Server, *backend) {
	t.Helper()
	srv := shared(t)
	return srv, connect(t, urlWith(t, srv.Addr, calmSession))
}

// raw is a connection beside the backend.
func raw(t testing.TB, addr string) *zk.Conn {
	t.Helper()
	return connect(t, urlWith(t, addr, calmSession)).conn
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
