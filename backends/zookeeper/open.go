package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/storeurl"
)

const (
	defaultPort    = "2181"
	defaultSession = 10 * time.Second
	defaultDial    = 5 * time.Second
)

// Open opens the store that a URL names and probes it within ctx:
//
//	zookeeper://[user:password@]host[:2181][,host…][/path][?parameters]
//	zookeepers://… the same over TLS
//
// With a user, connections authenticate by digest, and only that user may touch
// what they create. Everything is kept under the path, which is made if it
// is missing; the default is /coord.
//
// Parameters, all optional:
//
//   - session_timeout: 200ms to 1h, default 10s; the server has bounds of its
//     own. It is the TTL of every lock.
//   - dial_timeout: 1ms to 1h, default 5s; how long Open goes on while servers are slow
//     to answer, or close connections as they do in an election. Where nobody
//     listens it fails at once.
//   - tls_ca, tls_cert, tls_key: PEM files; tls_server_name: the name on the
//     server's certificate, default host; tls_insecure=true: do not check the
//     certificate. Only with zookeepers.
//
// Anything else is ErrInvalid, and no error shows the password.
func Open(ctx context.Context, u *url.URL) (driver.Backend, error) {
	session, patience := defaultSession, defaultDial
	parsed, err := storeurl.Parse(u, storeurl.Spec{
		Scheme: "zookeeper", TLSScheme: "zookeepers", DefaultPort: defaultPort, Many: true, User: true, Path: true,
		Params: map[string]storeurl.Param{
			"dial_timeout":    storeurl.Duration(&patience, time.Millisecond, time.Hour),
			"session_timeout": storeurl.Duration(&session, minSession, maxSession),
		},
	})
	if err != nil {
		return nil, err
	}
	o := options{root: defaultRoot, acl: zk.WorldACL(zk.PermAll)}
	if path := strings.TrimSuffix(parsed.Path, "/"); path != "" {
		o.root = "/" + path
	}
	if err := checkRoot(o.root); err != nil {
		return nil, err
	}
	if parsed.User != "" {
		if strings.Contains(parsed.User, ":") {
			return nil, fmt.Errorf("%w: store URL: user: want none with a colon", driver.ErrInvalid)
		}
		o.acl = zk.AuthACL(zk.PermAll)
	}
	if err := ctx.Err(); err != nil {
		return nil, driver.NotSent(err)
	}
	b, err := dial(parsed, session, patience, o)
	if err != nil {
		return nil, err
	}
	err = b.login(ctx, parsed.User, parsed.Password)
	if err == nil {
		err = b.probe(ctx)
	}
	if err != nil {
		return nil, errors.Join(parsed.Explain(b.wire.because(err)), b.Close())
	}
	b.wire.serves()
	return b, nil
}

// checkRoot refuses a path that ZooKeeper would.
func checkRoot(root string) error {
	bad := func(why string) error {
		return fmt.Errorf("%w: path: %s", driver.ErrInvalid, why)
	}
	if !strings.HasPrefix(root, "/") || len(root) > 1024 {
		return bad("want one from the root, of at most 1024 bytes")
	}
	for i, part := range strings.Split(root[1:], "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return bad("want components other than \"\", \".\" and \"..\"")
		case i == 0 && part == "zookeeper":
			return bad("/zookeeper is the server's own")
		}
		for j, r := range part {
			if _, n := utf8.DecodeRuneInString(part[j:]); !allowed(r, n) && r != '%' && r != ':' {
				return bad("want characters that ZooKeeper allows in names")
			}
		}
	}
	return nil
}

// silence is the library's logger: what matters is in errors.
type silence struct{}

func (silence) Printf(string, ...any) {}

// dial makes a connection of our own. It does not wait for it.
func dial(u storeurl.URL, session, patience time.Duration, o options) (*backend, error) {
	w := newWire(u.Hosts, u.TLS, session, patience)
	b := newBackend(nil, o)
	w.watching, w.shortened, w.opened = b.watching, b.shorten, b.opened
	conn, events, err := zk.Connect(u.Hosts, session,
		zk.WithDialer(w.dial), zk.WithHostProvider(w), zk.WithLogger(silence{}), zk.WithLogInfo(false))
	if err != nil {
		w.quit()
		return nil, err
	}
	b.conn, b.wire = conn, w
	ended := make(chan struct{})
	b.ended = ended
	go func() {
		defer close(ended)
		for range events { // closed when the connection's goroutines end
		}
	}()
	return b, nil
}

// login authenticates. The library does it again on every later connection.
func (b *backend) login(ctx context.Context, user, password string) error {
	if user == "" {
		return nil
	}
	return b.insist(ctx, func() error {
		return b.run(ctx, func() error { return b.conn.AddAuth("digest", []byte(user+":"+password)) }, nil)
	})
}
