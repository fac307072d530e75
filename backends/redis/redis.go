package redis

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/call"
)

const (
	// minTTL and ttlStep: Redis expires keys to the millisecond, but a lease
	// shorter than minTTL would not outlast a round trip.
	minTTL  = 10 * time.Millisecond
	ttlStep = time.Millisecond
	// maxTTL is longer than any hold should be without renewal.
	maxTTL = 30 * 24 * time.Hour
	// maxKey is the longest name, prefix included. Redis' own bound is 512 MiB.
	maxKey = 64 << 10
	// probeWithin bounds the probe of New, which has no ctx.
	probeWithin = 5 * time.Second
)

// Claims are what this store promises on one server; the conformance suite proves them.
var Claims = append(driver.Claims{driver.Vote}, SentinelClaims...)

// SentinelClaims are what it promises on the server that sentinels have chosen. Where another one can take over, with
// what it was sent in time, there is no vote in a quorum.
var SentinelClaims = append(driver.Claims{driver.AtomicMulti}, ClusterClaims...)

// ClusterClaims are what it promises on a cluster, where several limits are taken at
// once only if they are in one slot: those of one key.
var ClusterClaims = driver.Claims{
	driver.Fair, driver.Wake, driver.PerHoldTTL, driver.Inspect, driver.Break, driver.List, driver.Shared,
	driver.MinHoldAfterExit,
	driver.TokenProcess, driver.TokenClockSeeded,
	driver.ServerClock, driver.Reserve, driver.Charge, driver.ScopeHosts,
}

// Option configures New.
type Option func(*options)

type options struct {
	log            *slog.Logger
	replicas       int // to wait for, with each grant
	replicasWithin time.Duration
	sentinels      *resolver // of a client of ours; nil: none
}

// WithLogger sets where warnings of the start-up probe go. The default is
// slog.Default.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) {
		if l != nil {
			o.log = l
		}
	}
}

// New makes a store over the application's own client, which Close leaves open.
// It probes the server, on a cluster each master, within five seconds. A master that does not
// answer is warned of, if another one does.
//
// A *redis.Client and a *redis.ClusterClient are checked for
// settings that would break the contract, and refused with ErrInvalid and the remedy:
// the client has to have ContextTimeoutEnabled, and a ReadTimeout and WriteTimeout
// that end. Its MaxRetries does not matter: commands are sent once, and on a cluster
// again only where a node has replied that it did not run them. A *redis.Ring is
// refused, because it moves keys when a server is away.
//
// A client of redis.NewFailoverClient works, and New warns of it: it believes the first
// sentinel that answers, one that is cut off with an old master too. Then two clients
// can hold one lock for as long as that lasts. It also waits for a sentinel that is silent.
// [Open] with a redis+sentinel URL asks all sentinels, and does neither.
//
// go-redis logs failed connections of such a client to standard error, until the application calls redis.SetLogger.
// A store of [Open] logs nothing there.
func New(client redis.UniversalClient, opts ...Option) (driver.Backend, error) {
	o := options{log: slog.Default()}
	for _, opt := range opts {
		opt(&o)
	}
	if err := checkClient(client, &o); err != nil {
		return nil, err
	}
	if c, ok := client.(*redis.Client); ok && c.Options().Addr == failoverAddr {
		o.log.Warn("redis: a failover client of go-redis follows the first sentinel that answers: two clients can have two masters, and grant a lock twice; open a redis+sentinel:// URL instead")
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeWithin)
	defer cancel()
	return newBackend(ctx, client, false, o)
}

// checkClient refuses a client that cannot keep the contract, and options that it
// cannot keep.
func checkClient(client redis.UniversalClient, opts *options) error {
	switch c := client.(type) {
	case nil:
		return fmt.Errorf("%w: nil client", driver.ErrInvalid)
	case *redis.Client:
		o := c.Options()
		if err := checkTimeouts(o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout); err != nil {
			return err
		}
		return opts.checkWait(o.ReadTimeout)
	case *redis.ClusterClient:
		o := c.Options()
		if err := checkTimeouts(o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout); err != nil {
			return err
		}
		return opts.checkWait(o.ReadTimeout)
	case *redis.Ring:
		return fmt.Errorf("%w: a redis.Ring moves keys to another server when one is away, which would grant a lock twice: use a Client or a ClusterClient", driver.ErrUnsupported)
	default: // a wrapper: its author knows what is inside
		if opts.replicas != 0 {
			return fmt.Errorf("%w: to wait for replicas over a %T: want a *redis.Client or a *redis.ClusterClient", driver.ErrUnsupported, client)
		}
		return nil
	}
}

func checkTimeouts(ctxBounds bool, read, write time.Duration) error {
	if !ctxBounds {
		return fmt.Errorf("%w: the client ignores deadlines: set redis.Options.ContextTimeoutEnabled to true", driver.ErrInvalid)
	}
	if read <= 0 || write <= 0 {
		return fmt.Errorf("%w: the client can wait for ever: set redis.Options.ReadTimeout and WriteTimeout above 0", driver.ErrInvalid)
	}
	return nil
}

// backend is the store.
type backend struct {
	driver.Unimplemented

	client     redis.UniversalClient
	cluster    *redis.ClusterClient // client, if it is one
	own        bool                 // Close closes client
	options    options
	limits     limitScripts
	shared     sharedScripts
	info       driver.Info
	pipeliners pipeliners
	lastTTL    atomic.Pointer[boxedTTL]
	waiters    waiters
	calls      *call.Calls
}

var _ driver.Backend = (*backend)(nil)

func newBackend(ctx context.Context, client redis.UniversalClient, own bool, o options) (*backend, error) {
	if o.log == nil {
		o.log = slog.Default()
	}
	b := &backend{client: client, own: own, options: o, limits: productionLimits, shared: productionShared, calls: call.New(call.Options{ErrClosing: errClosing})}
	claims, kind := Claims, topologyOf(client)
	if kind == sentinel {
		claims = SentinelClaims
	}
	if b.cluster, _ = client.(*redis.ClusterClient); b.cluster != nil {
		claims = ClusterClaims
	}
	server, missing, err := b.probe(ctx, o.log)
	if err != nil {
		return nil, err
	}
	for _, c := range missing {
		claims = claims.Without(c)
	}
	b.waiters.init(b, claims.Has(driver.Wake))
	if server != "" && kind != single {
		server += " " + string(kind)
	}
	b.info = driver.Info{
		Name: "redis", Server: server,
		MinTTL: minTTL, TTLStep: ttlStep, MaxTTL: maxTTL, MaxKey: maxKey,
		Claims: claims,
	}
	return b, nil
}

// topologyOf tells what a client talks to.
func topologyOf(client redis.UniversalClient) topology {
	switch c := client.(type) {
	case *redis.ClusterClient:
		return cluster
	case *redis.Client:
		switch c.Options().Addr {
		case sentinelAddr, failoverAddr:
			return sentinel
		}
	}
	return single
}

// Info implements driver.Backend.
func (b *backend) Info() driver.Info { return b.info }

// Ping implements driver.Operator. On a cluster it asks for some key, because a node
// answers PING also when the cluster is down.
func (b *backend) Ping(ctx context.Context) error {
	if b.cluster != nil {
		return classify(b.process(ctx, redis.NewIntCmd(ctx, "pttl", lockKey("ping"))))
	}
	return classify(b.process(ctx, redis.NewStatusCmd(ctx, "ping")))
}

// closeWaits is how long Close waits for what is under way: a dial to a server that does not answer ends by its own
// timeout.
const closeWaits = 2 * time.Second

// Close implements driver.Backend.
func (b *backend) Close() (err error) {
	if !b.calls.Close() {
		return nil
	}
	b.options.sentinels.close()
	if b.own {
		err = b.client.Close()
	}
	b.calls.Wait(closeWaits)
	return err
}
