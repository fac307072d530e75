package memcached

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/storeurl"
)

const (
	defaultPort = "11211"
	// defaultTimeout bounds dialling, and each command.
	defaultTimeout = time.Second
	// defaultPool is how many connections there are to each server at most, and so how many calls
	// to it are under way. gomemcache keeps two, and dials again for whatever goes on beside them.
	defaultPool = 64
	maxPool     = 10_000
)

// Open opens the store that a URL names and probes its servers within ctx:
//
//	memcached://[user:password@]host[:11211][,host2[:11211]…][?parameters]
//	memcacheds://… the same over TLS
//
// A user is for servers with -Y, which ask for a password in the text protocol.
//
// Parameters, all optional:
//
//   - on_missing: full or empty, what a limit is that is not there; default full. See
//     [OnMissing].
//   - timeout: 1ms to 5s, default 1s; it bounds dialling and each command for a caller whose
//     ctx does not end earlier.
//   - pool_size: calls under way to each server, and so connections to it, 1 to 10000, default
//     64. Further calls wait, but not those to another server.
//   - tls_ca, tls_cert, tls_key: PEM files; tls_server_name: the name on the servers'
//     certificates, default each one's host; tls_insecure=true: do not check them. Only with
//     memcacheds.
//
// Every client of a store names the same servers by the same names, in any order: the text of the
// list says where each key is, and "localhost" is not "127.0.0.1". Each server keeps the list for a minute
// after the last client has gone; a client with another one is refused with [ServersError]. Anything
// else that is wrong with the URL is ErrInvalid, and no error shows the password.
//
// A server that does not answer is warned of, as long as another one does. It is probed before its
// first use; until then calls on its keys fail.
func Open(ctx context.Context, u *url.URL) (driver.Backend, error) {
	s, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	b, err := openSettings(ctx, s, listLife)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// openSettings opens a store whose servers keep their list for life.
func openSettings(ctx context.Context, s settings, life time.Duration) (*backend, error) {
	b, err := newBackend([]Option{WithOnMissing(s.onMissing)})
	if err != nil {
		return nil, err
	}
	b.pools = newPools(s, life, dialer{tls: s.url.TLS, user: s.url.User, password: s.url.Password})
	if err := b.enter(ctx); err != nil {
		return nil, errors.Join(s.url.Explain(err), b.Close())
	}
	for _, p := range b.pools.byAddr {
		b.calls.Go(func() { b.maintain(b.calls.Life(), p) })
	}
	return b, nil
}

// settings are what a URL says.
type settings struct {
	url       storeurl.URL
	onMissing OnMissing
	timeout   time.Duration
	pool      int
}

func parseURL(u *url.URL) (settings, error) {
	s := settings{timeout: defaultTimeout, pool: defaultPool}
	onMissing := "full"
	var err error
	s.url, err = storeurl.Parse(u, storeurl.Spec{
		Scheme: "memcached", TLSScheme: "memcacheds", DefaultPort: defaultPort, Many: true, User: true,
		Params: map[string]storeurl.Param{
			"on_missing": storeurl.OneOf(&onMissing, "full", "empty"),
			"timeout":    storeurl.Duration(&s.timeout, time.Millisecond, maxTimeout),
			"pool_size":  storeurl.Int(&s.pool, 1, maxPool),
		},
	})
	if onMissing == "empty" {
		s.onMissing = Empty
	}
	return s, err
}
