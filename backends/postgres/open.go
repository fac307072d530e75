package postgres

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/storeurl"
)

const (
	defaultPort = "5432"
	// defaultPool is how many connections a client has at most. More are no faster on a server of few cores, and each is a
	// process of the server: it allows 100 of all clients, unless it is set up otherwise. pgx has the same default.
	defaultPool = 4
	maxPool     = 1000
)

// Open opens the store that a URL names, and looks within ctx whether the tables and functions are there. Unless they are,
// the first call that may write something makes them:
//
//	postgres://[user[:password]@]host[:5432][,host2[:5432]…]/database[?parameters]
//	postgresql://… is the same
//
// Of several hosts the first is used that takes writes. One that does not answer is left after 5 s.
//
// Parameters, all optional:
//
//   - schema: of the tables, default coord.
//   - sslmode: disable, allow, prefer, require, verify-ca or verify-full, as in libpq; default prefer, which connects twice
//     to a server without TLS: disable is half the work there. sslrootcert, sslcert and sslkey: PEM files.
//   - timeout: 10ms to 5s, default 1s; it bounds each call, the wait for a connection included, for a caller whose ctx does
//     not end earlier. A statement that is late has three times as long, at most 5 s, before its connection is closed.
//   - pool_size: connections, and so calls under way, 1 to 1000, default 4. Further calls wait. There is one more for renewals, and one
//     for releases while the others are busy. A client makes one at a time
//     to each host, within 5 s, and a second one waits 2 s for that: a server that is slow to log in gets on after an outage.
//   - prepared: true or false, default false. With true each session prepares its statements, which makes a call a third
//     faster; not behind a pooler of transactions that does not know prepared statements.
//
// A password that is not in the URL is read from PGPASSWORD or a passfile, as libpq does.
//
// Anything else that is wrong with the URL is ErrInvalid, and no error shows the password. A PostgreSQL below 14, CockroachDB
// and YugabyteDB are ErrUnsupported.
func Open(ctx context.Context, u *url.URL) (driver.Backend, error) {
	s, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	pool, owned, err := s.connect()
	if err != nil {
		return nil, err
	}
	b, err := newBackend(pool, []Option{WithSchema(s.schema), WithTimeout(s.timeout)})
	if err != nil {
		pool.Close()
		return nil, err
	}
	b.owned = owned
	if err := b.migrate(ctx); err != nil {
		return nil, errors.Join(s.explain(err), b.Close())
	}
	return b, nil
}

// settings are what a URL says.
type settings struct {
	url      storeurl.URL
	schema   string
	timeout  time.Duration
	pool     int
	prepared bool
	ssl      map[string]*string
}

func parseURL(u *url.URL) (settings, error) {
	s := settings{schema: DefaultSchema, timeout: defaultTimeout, pool: defaultPool}
	mode, ca, cert, key := "prefer", "", "", ""
	s.ssl = map[string]*string{"sslmode": &mode, "sslrootcert": &ca, "sslcert": &cert, "sslkey": &key}
	file := func(to *string) storeurl.Param {
		return func(v string) error {
			*to = v
			return nil
		}
	}
	same := *u
	if same.Scheme == "postgresql" {
		same.Scheme = "postgres"
	}
	var err error
	s.url, err = storeurl.Parse(&same, storeurl.Spec{
		Scheme: "postgres", DefaultPort: defaultPort, Many: true, User: true, Path: true,
		Params: map[string]storeurl.Param{
			"schema":      func(v string) error { s.schema = v; return checkSchema(v) },
			"timeout":     storeurl.Duration(&s.timeout, minTimeout, maxTimeout),
			"pool_size":   storeurl.Int(&s.pool, 1, maxPool),
			"prepared":    storeurl.Bool(&s.prepared),
			"sslmode":     storeurl.OneOf(&mode, "disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
			"sslrootcert": file(&ca), "sslcert": file(&cert), "sslkey": file(&key),
		},
	})
	if err == nil && s.url.Path == "" {
		err = fmt.Errorf("%w: store URL: want a database: postgres://host/database", driver.ErrInvalid)
	}
	return s, err
}

// connect makes the pool. It does not connect yet.
func (s settings) connect() (*pgxpool.Pool, *connections, error) {
	u := url.URL{Scheme: "postgres", Host: strings.Join(s.url.Hosts, ","), Path: "/" + s.url.Path}
	switch {
	case s.url.Password != "":
		u.User = url.UserPassword(s.url.User, s.url.Password)
	case s.url.User != "":
		u.User = url.User(s.url.User)
	}
	query := url.Values{"application_name": {"coord"}}
	for name, value := range s.ssl {
		if *value != "" {
			query.Set(name, *value)
		}
	}
	if len(s.url.Hosts) > 1 {
		query.Set("target_session_attrs", "read-write")
	}
	u.RawQuery = query.Encode()
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, nil, fmt.Errorf("%w: store URL: %w", driver.ErrInvalid, err) // pgx leaves the password out
	}
	owned := newConnections()
	config.MaxConns = int32(s.pool)
	config.ConnConfig.DialFunc = owned.dial
	config.ConnConfig.AfterConnect = connected
	config.ConnConfig.ConnectTimeout = connectWithin
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	if s.prepared {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	}
	config.ConnConfig.OnNotice = keepWarning
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	config.PrepareConn = usable
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: store URL: %w", driver.ErrInvalid, err)
	}
	return pool, owned, nil
}

// explain puts what to do in front of an error from opening the store. Parameters about certificates are called as in libpq.
func (s settings) explain(err error) error {
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	mode := *s.ssl["sslmode"]
	switch {
	case (mode == "require" || strings.HasPrefix(mode, "verify-")) && strings.Contains(err.Error(), "server refused TLS connection"):
		return fmt.Errorf("the server has no TLS: set ssl = on there, or sslmode=disable: %w", err)
	case errors.As(err, &name):
		return fmt.Errorf("the server's certificate is for another name: use that, or sslmode=verify-ca: %w", err)
	case errors.As(err, &authority):
		return fmt.Errorf("the server's certificate is of an unknown authority: give sslrootcert: %w", err)
	}
	return s.url.Explain(err)
}
