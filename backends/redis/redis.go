package redis

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
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

// Claims are what this store promises; the conformance suite proves them.
var Claims = driver.Claims{
	driver.PerHoldTTL, driver.Inspect, driver.Break, driver.MinHoldAfterExit,
	driver.TokenProcess, driver.TokenClockSeeded,
	driver.ServerClock, driver.Reserve, driver.ScopeHosts,
}

// Option configures New.
type Option func(*options)

type options struct{ log *slog.Logger }

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
// It probes the server, within five seconds.
//
// A *redis.Client and a *redis.ClusterClient are checked for settings that
// would break the contract, and refused with ErrInvalid and the remedy: the
// client has to have ContextTimeoutEnabled, and a ReadTimeout and WriteTimeout
// that end. Its MaxRetries does not matter: commands are sent once.
// A *redis.Ring is refused, because it moves keys when a server is away.
func New(client redis.UniversalClient, opts ...Option) (driver.Backend, error) {
	if err := checkClient(client); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeWithin)
	defer cancel()
	return newBackend(ctx, client, false, opts)
}

// checkClient refuses a client that cannot keep the contract.
func checkClient(client redis.UniversalClient) error {
	switch c := client.(type) {
	case nil:
		return fmt.Errorf("%w: nil client", driver.ErrInvalid)
	case *redis.Client:
		o := c.Options()
		return checkTimeouts(o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout)
	case *redis.ClusterClient:
		o := c.Options()
		return checkTimeouts(o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout)
	case *redis.Ring:
		return fmt.Errorf("%w: a redis.Ring moves keys to another server when one is away, which would grant a lock twice: use a Client or a ClusterClient", driver.ErrUnsupported)
	default:
		return nil // a wrapper: its author knows what is inside
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
	client  redis.UniversalClient
	own     bool // Close closes client
	limits  limitScripts
	info    driver.Info
	lastTTL atomic.Pointer[boxedTTL]
	closing chan struct{}
	once    sync.Once
}

var (
	_ driver.Locker          = (*backend)(nil)
	_ driver.Limiter         = (*backend)(nil)
	_ driver.OneTaker        = (*backend)(nil)
	_ driver.Refunder        = (*backend)(nil)
	_ driver.BatchRenewer    = (*backend)(nil)
	_ driver.DelayedUnlocker = (*backend)(nil)
	_ driver.Inspector       = (*backend)(nil)
	_ driver.Breaker         = (*backend)(nil)
	_ driver.Pinger          = (*backend)(nil)
)

func newBackend(ctx context.Context, client redis.UniversalClient, own bool, opts []Option) (*backend, error) {
	o := options{log: slog.Default()}
	for _, opt := range opts {
		opt(&o)
	}
	b := &backend{client: client, own: own, limits: productionLimits, closing: make(chan struct{})}
	server, err := b.probe(ctx, o.log)
	if err != nil {
		return nil, err
	}
	b.info = driver.Info{
		Name: "redis", Server: server,
		MinTTL: minTTL, TTLStep: ttlStep, MaxTTL: maxTTL, MaxKey: maxKey,
		Claims: Claims,
	}
	return b, nil
}

// Info implements driver.Backend.
func (b *backend) Info() driver.Info { return b.info }

// Ping implements driver.Pinger.
func (b *backend) Ping(ctx context.Context) error {
	return classify(b.process(ctx, redis.NewStatusCmd(ctx, "ping")))
}

// Close implements driver.Backend.
func (b *backend) Close() error {
	var err error
	b.once.Do(func() {
		close(b.closing)
		if b.own {
			err = b.client.Close()
		}
	})
	return err
}

func (b *backend) closed() bool {
	select {
	case <-b.closing:
		return true
	default:
		return false
	}
}
