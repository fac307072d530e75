package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/storeurl"
)

const (
	defaultPort = "2379"
	// defaultTimeout bounds the first authentication.
	defaultTimeout = 5 * time.Second
	// connectWithin is how long one attempt to connect may take, unless the URL says it: while gRPC waits for a
	// connection, requests wait with it, and a renewal cannot wait for the 20 s that gRPC gives it, or for 5.
	connectWithin = time.Second
	// pingAfter and pingWithin find a connection that is dead without a word. A server
	// does not take pings that come more often.
	pingAfter, pingWithin = 10 * time.Second, 3 * time.Second
)

// Open opens the store that a URL names and probes it within ctx:
//
//	etcd://[user:password@]host[:2379][,host[:2379]…][/namespace][?parameters]
//	etcds://… the same over TLS
//
// With a namespace, which may itself contain slashes, all keys are under it. Stores of
// different namespaces share nothing.
//
// Parameters, all optional:
//
//   - dial_timeout: 1ms to 1h; it bounds one attempt to connect, default 1s, and the
//     first login, default 5s.
//   - tls_ca, tls_cert, tls_key: PEM files; tls_server_name: the name on the
//     server's certificate, default host; tls_insecure=true: do not check the
//     certificate. Only with etcds.
//
// Anything else is ErrInvalid, and no error shows the password.
func Open(ctx context.Context, u *url.URL) (driver.Backend, error) {
	cfg, read, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	client, err := dial(ctx, cfg)
	if err != nil {
		return nil, read.Explain(err)
	}
	b, err := newBackend(ctx, client, true, []Option{WithNamespace(read.Path)})
	if err != nil {
		return nil, errors.Join(read.Explain(err), client.Close())
	}
	return b, nil
}

// parseURL gives the settings of the client that a URL describes, and the URL, whose path is the namespace.
func parseURL(u *url.URL) (cfg clientv3.Config, parsed storeurl.URL, err error) {
	timeout := defaultTimeout
	parsed, err = storeurl.Parse(u, storeurl.Spec{
		Scheme: "etcd", TLSScheme: "etcds", DefaultPort: defaultPort, Many: true, User: true, Path: true,
		Params: map[string]storeurl.Param{
			"dial_timeout": storeurl.Duration(&timeout, time.Millisecond, time.Hour),
		},
	})
	if err != nil {
		return cfg, parsed, err
	}
	if (parsed.User == "") != (parsed.Password == "") {
		return cfg, parsed, fmt.Errorf("%w: store URL: want a user with a password, or neither", driver.ErrInvalid)
	}
	if _, err := newNames(parsed.Path); err != nil {
		return cfg, parsed, err
	}
	connect := connectWithin
	if u.Query().Has("dial_timeout") {
		connect = timeout
	}
	cfg = clientv3.Config{
		DialTimeout: timeout, TLS: parsed.TLS, Username: parsed.User, Password: parsed.Password,
		DialKeepAliveTime: pingAfter, DialKeepAliveTimeout: pingWithin,
		// One call is one attempt, and a second one with a new token: whether and when to try
		// again is decided above.
		MaxUnaryRetries: 2,
		Logger:          zap.NewNop(),
		DialOptions: append(DialOptions(),
			// The waiters of a store that was away for a second should not be away for many.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
				MinConnectTimeout: connect,
			})),
	}
	scheme := "http://"
	if parsed.TLS != nil {
		scheme = "https://"
		// gRPC takes the name that it checks from here, and not from the TLS settings.
		if name := parsed.TLS.ServerName; name != "" {
			cfg.DialOptions = append(cfg.DialOptions, grpc.WithAuthority(name))
		}
	}
	for _, host := range parsed.Hosts {
		cfg.Endpoints = append(cfg.Endpoints, scheme+host)
	}
	return cfg, parsed, nil
}

// dial makes the client. With a user it asks for a token at once, under the client's own
// context: that is ended if ctx ends first.
func dial(ctx context.Context, cfg clientv3.Config) (*clientv3.Client, error) {
	if ctx.Err() != nil {
		return nil, driver.NotSent(ended(ctx))
	}
	life, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, cancel)
	cfg.Context = life
	client, err := clientv3.New(cfg)
	if stop() && err == nil {
		withLogin(client, cfg)
		return client, nil
	}
	cancel()
	if err == nil {
		err = errors.Join(ended(ctx), client.Close())
	}
	return nil, readOnly(ctx, err)
}
