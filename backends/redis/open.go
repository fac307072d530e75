package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/storeurl"
)

const (
	// defaultTimeout bounds dialling, and each read and write of a caller
	// whose ctx has no earlier deadline.
	defaultTimeout = 5 * time.Second
	maxTimeout     = time.Hour
	maxPool        = 10_000
)

// topology is how the servers of a store stand to each other.
type topology string

const (
	single   topology = ""
	sentinel topology = "sentinel"
	cluster  topology = "cluster"
)

// Open opens the store that a URL names and probes it within ctx:
//
//	redis://[user[:password]@]host[:6379][/db][?parameters]
//	redis+sentinel://[user[:password]@]host[:26379][,host…]/master[/db][?parameters]
//	redis+cluster://[user[:password]@]host[:6379][,host…][?parameters]
//	rediss://…, rediss+sentinel://…, rediss+cluster://… the same over TLS
//	valkey://…, valkeys://…, valkey+sentinel://… and so on: the same, by the other name
//
// The hosts of redis+sentinel are all the sentinels that say where the server called master
// is at the time; a majority of them has to answer. Those of redis+cluster are some nodes of the cluster, which say
// where the others are; one that answers is enough. User and password are those of the
// servers with the data.
//
// Parameters, all optional:
//
//   - dial_timeout, read_timeout, write_timeout: 1ms to 1h, default 5s; they
//     bound a caller whose ctx does not end earlier.
//   - pool_size: connections to each server, 1 to 10000, default 10 per CPU, on a
//     cluster 5.
//   - client_name: as CLIENT LIST shows it.
//   - socket: the path of the server's Unix socket, which is used in place of the host, as in
//     redis://localhost/0?socket=/run/redis.sock. One server alone has it, without TLS.
//   - wait_replicas, 1 to 100, and wait_timeout, 1ms to less than read_timeout and
//     default 1s: see [WithWaitReplicas].
//   - sentinel_user, sentinel_password: those of the sentinels.
//   - tls_ca, tls_cert, tls_key: PEM files; tls_server_name: the name on the
//     servers' certificates, default the host's; tls_insecure=true: do not check the
//     certificate. Only over TLS.
//
// Anything else is ErrInvalid, and no error shows a password.
func Open(ctx context.Context, u *url.URL) (driver.Backend, error) {
	t, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	client := t.client()
	b, err := newBackend(ctx, client, true, t.wait)
	if err != nil {
		t.wait.sentinels.close()
		return nil, errors.Join(t.url.Explain(err), client.Close())
	}
	return b, nil
}

// target is what a URL describes.
type target struct {
	topology topology
	url      storeurl.URL
	socket   string // "": none
	options  redis.UniversalOptions
	wait     options
}

// client makes the client, and what follows the sentinels. It keeps the contract: deadlines
// bound reads and writes, and one call is one attempt.
func (t *target) client() redis.UniversalClient {
	switch t.topology {
	case sentinel:
		t.wait.sentinels = newResolver(&t.options, slog.Default())
		return t.wait.sentinels.client()
	case cluster:
		o := t.options.Cluster()
		o.Dialer, o.TLSConfig = t.dialer(), nil
		// To know every command of the server is of no use here: each script
		// names its keys.
		o.DisableRoutingPolicies = true
		return redis.NewClusterClient(o)
	default:
		o := t.options.Simple()
		o.Dialer, o.TLSConfig = t.dialer(), nil
		return redis.NewClient(o)
	}
}

// parseURL reads the URL of any topology.
func parseURL(u *url.URL) (*target, error) {
	t := &target{options: redis.UniversalOptions{
		DialTimeout: defaultTimeout, ReadTimeout: defaultTimeout, WriteTimeout: defaultTimeout,
		// Whether and when to try again is decided above.
		ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		// With version 3 the library looks for messages of the server before each command, and logs what fails there.
		DisableIdentity: true, Protocol: 2,
	}}
	spec := t.spec(u.Scheme)
	read, err := storeurl.Parse(u, spec)
	if err != nil {
		return nil, manyHosts(err)
	}
	t.url = read
	o := &t.options
	o.Addrs, o.Username, o.Password, o.TLSConfig = read.Hosts, read.User, read.Password, read.TLS
	if o.TLSConfig != nil && t.socket != "" {
		return nil, fmt.Errorf("%w: store URL: parameter socket: there is no TLS on it: want a URL without", driver.ErrInvalid)
	}
	if o.TLSConfig != nil && t.topology != single && !u.Query().Has("tls_server_name") {
		o.TLSConfig.ServerName = "" // each server's own
	}
	db := read.Path
	if t.topology == sentinel {
		o.MasterName, db, _ = strings.Cut(read.Path, "/")
		if o.MasterName == "" {
			return nil, fmt.Errorf("%w: store URL: no name of a master: want a form like %s://host:%s/mymaster", driver.ErrInvalid, u.Scheme, spec.DefaultPort)
		}
	}
	if db != "" {
		n, err := strconv.ParseUint(db, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%w: store URL: its path: want the number of a database, from 0", driver.ErrInvalid)
		}
		o.DB = int(n)
	}
	return t, t.wait.checkWait(o.ReadTimeout)
}

// spec finds the topology, and says what URLs of it contain and where that goes.
func (t *target) spec(scheme string) storeurl.Spec {
	o := &t.options
	product, kind, _ := strings.Cut(scheme, "+")
	if product = strings.TrimSuffix(product, "s"); product != "valkey" {
		product = "redis"
	}
	s := storeurl.Spec{
		Scheme: product, TLSScheme: product + "s", DefaultPort: "6379", User: true, Path: true,
		Params: map[string]storeurl.Param{
			"dial_timeout":  storeurl.Duration(&o.DialTimeout, time.Millisecond, maxTimeout),
			"read_timeout":  storeurl.Duration(&o.ReadTimeout, time.Millisecond, maxTimeout),
			"write_timeout": storeurl.Duration(&o.WriteTimeout, time.Millisecond, maxTimeout),
			"pool_size":     storeurl.Int(&o.PoolSize, 1, maxPool),
			"client_name":   storeurl.Printable(&o.ClientName),
			"wait_replicas": storeurl.Int(&t.wait.replicas, 1, maxReplicas),
			"wait_timeout":  storeurl.Duration(&t.wait.replicasWithin, time.Millisecond, maxTimeout),
		},
	}
	switch topology(kind) {
	case sentinel:
		t.topology, s.DefaultPort = sentinel, "26379"
		s.Params["sentinel_user"] = secret(&o.SentinelUsername)
		s.Params["sentinel_password"] = secret(&o.SentinelPassword)
	case cluster:
		t.topology, s.Path = cluster, false
	default:
		s.Params["socket"] = t.atSocket
		return s
	}
	s.Many = true
	s.Scheme, s.TLSScheme = s.Scheme+"+"+kind, s.TLSScheme+"+"+kind
	return s
}

func (t *target) atSocket(path string) error {
	if t.socket = path; !strings.HasPrefix(path, "/") {
		return errors.New("want a path from / on")
	}
	return nil
}

// secret takes any value, so that no error shows it.
func secret(to *string) storeurl.Param {
	return func(v string) error {
		*to = v
		return nil
	}
}
