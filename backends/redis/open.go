package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

const (
	defaultPort = "6379"
	// defaultTimeout bounds dialling, and each read and write of a caller
	// whose ctx has no earlier deadline.
	defaultTimeout = 5 * time.Second
	maxTimeout     = time.Hour
	maxPool        = 10_000
)

// Open opens the store that a URL names and probes it within ctx:
//
//	redis://[user[:password]@]host[:6379][/db][?parameters]
//	rediss://… the same over TLS
//
// Parameters, all optional:
//
//   - dial_timeout, read_timeout, write_timeout: 1ms to 1h, default 5s; they
//     bound a caller whose ctx does not end earlier.
//   - pool_size: connections, 1 to 10000, default 10 per CPU.
//   - client_name: as CLIENT LIST shows it.
//   - tls_ca, tls_cert, tls_key: PEM files; tls_server_name: the name on the
//     server's certificate, default host; tls_insecure=true: do not check the
//     certificate. Only with rediss.
//
// Anything else is ErrInvalid, and no error shows the password.
func Open(ctx context.Context, u *url.URL) (driver.Backend, error) {
	o, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(o)
	b, err := newBackend(ctx, client, true, nil)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return b, nil
}

// parseURL gives the options of the client that a URL describes.
func parseURL(u *url.URL) (*redis.Options, error) {
	o := &redis.Options{
		DialTimeout: defaultTimeout, ReadTimeout: defaultTimeout, WriteTimeout: defaultTimeout,
		// Deadlines bound reads and writes, and one call is one attempt: whether
		// and when to try again is decided above.
		ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		DisableIdentity: true,
	}
	switch {
	case u.Scheme != "redis" && u.Scheme != "rediss":
		return nil, fmt.Errorf("%w: scheme %q: want redis or rediss", driver.ErrInvalid, u.Scheme)
	case u.Opaque != "" || u.Hostname() == "":
		return nil, fmt.Errorf("%w: store URL: want a form like %s://host:6379/0", driver.ErrInvalid, u.Scheme)
	case u.Fragment != "":
		return nil, fmt.Errorf("%w: store URL: fragment %q: want none", driver.ErrInvalid, u.Fragment)
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("%w: port %q: want 1 to 65535", driver.ErrInvalid, port)
	}
	o.Addr = net.JoinHostPort(u.Hostname(), port)
	o.Username = u.User.Username()
	o.Password, _ = u.User.Password()
	if db := strings.TrimPrefix(u.Path, "/"); db != "" {
		n, err := strconv.ParseUint(db, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%w: database %q: want a number from 0", driver.ErrInvalid, db)
		}
		o.DB = int(n)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%w: store URL: its query is malformed", driver.ErrInvalid)
	}
	if err := applyQuery(o, u.Scheme, u.Hostname(), query); err != nil {
		return nil, err
	}
	return o, nil
}

// parameters of a URL, and the options they set. Those of TLS are set together.
var parameters = map[string]func(o *redis.Options, value string) error{
	"dial_timeout":    func(o *redis.Options, v string) error { return timeout(&o.DialTimeout, v) },
	"read_timeout":    func(o *redis.Options, v string) error { return timeout(&o.ReadTimeout, v) },
	"write_timeout":   func(o *redis.Options, v string) error { return timeout(&o.WriteTimeout, v) },
	"pool_size":       func(o *redis.Options, v string) error { return poolSize(&o.PoolSize, v) },
	"client_name":     func(o *redis.Options, v string) error { return clientName(&o.ClientName, v) },
	"tls_ca":          nil,
	"tls_cert":        nil,
	"tls_key":         nil,
	"tls_server_name": nil,
	"tls_insecure":    nil,
}

func applyQuery(o *redis.Options, scheme, host string, query url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		set, known := parameters[name]
		switch {
		case !known:
			return fmt.Errorf("%w: parameter %q: want prefix, %s", driver.ErrInvalid, name, strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
		case len(query[name]) != 1:
			return fmt.Errorf("%w: parameter %s is given %d times: want once", driver.ErrInvalid, name, len(query[name]))
		case set == nil && scheme != "rediss":
			return fmt.Errorf("%w: parameter %s: want a rediss:// URL", driver.ErrInvalid, name)
		case set == nil:
			continue
		}
		if err := set(o, query.Get(name)); err != nil {
			return fmt.Errorf("%w: parameter %s=%q: %w", driver.ErrInvalid, name, query.Get(name), err)
		}
	}
	if scheme != "rediss" {
		return nil
	}
	var err error
	o.TLSConfig, err = tlsConfig(host, query)
	return err
}

func timeout(to *time.Duration, v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < time.Millisecond || d > maxTimeout {
		return fmt.Errorf("want a duration from 1ms to %v", maxTimeout)
	}
	*to = d
	return nil
}

func poolSize(to *int, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > maxPool {
		return fmt.Errorf("want 1 to %d", maxPool)
	}
	*to = n
	return nil
}

func clientName(to *string, v string) error {
	for _, c := range []byte(v) {
		if c <= ' ' || c > '~' {
			return errors.New("want printable ASCII without spaces")
		}
	}
	*to = v
	return nil
}

func tlsConfig(host string, query url.Values) (*tls.Config, error) {
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if name := query.Get("tls_server_name"); name != "" {
		c.ServerName = name
	}
	if v := query.Get("tls_insecure"); v != "" {
		insecure, err := strconv.ParseBool(v)
		if err != nil {
			return nil, fmt.Errorf("%w: parameter tls_insecure=%q: want true or false", driver.ErrInvalid, v)
		}
		c.InsecureSkipVerify = insecure
	}
	if file := query.Get("tls_ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%w: parameter tls_ca: %w", driver.ErrInvalid, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: parameter tls_ca: %s has no PEM certificate", driver.ErrInvalid, file)
		}
	}
	cert, key := query.Get("tls_cert"), query.Get("tls_key")
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("%w: parameters tls_cert and tls_key: want both or none", driver.ErrInvalid)
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%w: parameters tls_cert and tls_key: %w", driver.ErrInvalid, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
