package memcached

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
	calls "github.com/coordgo/coord/driver/call"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/driver/optimistic"
)

const (
	// minTTL and ttlStep: memcached counts whole seconds.
	minTTL  = time.Second
	ttlStep = time.Second
	// maxTTL, with slack, is the longest time that memcached counts from now.
	maxTTL = (maxRelative - slack) * time.Second
	// maxTimeout bounds the client's Timeout, by which a call that was left behind ends.
	maxTimeout = 5 * time.Second
	// probeWithin bounds the probe of New, which has no ctx.
	probeWithin = 5 * time.Second
)

// Claims are what this store promises; the conformance suite proves them.
var Claims = driver.Claims{
	driver.PerHoldTTL, driver.Inspect, driver.Break, driver.Shared, driver.MinHoldAfterExit,
	driver.TokenProcess, driver.TokenClockSeeded,
	driver.Reserve, driver.Charge, driver.ScopeHosts,
}

// OnMissing says what a limit is that is not there.
type OnMissing int

const (
	// Full: it is fresh, with full capacity. A limit that was evicted or lost in a restart
	// admits its rate once more.
	Full OnMissing = iota
	// Empty: it may have been lost, and begins as spent: nothing is admitted that the lost
	// state could have forbidden, but for what reservations had taken beyond the burst. So does
	// a key that was never seen, and waits for one refill or period at its first use. States
	// are kept for 30 days after their last grant.
	Empty
)

// Option configures New.
type Option func(*options)

type options struct {
	log       *slog.Logger
	onMissing OnMissing
	selector  memcache.ServerSelector
}

// WithLogger sets where warnings go, of the start-up probe and of clocks that are ahead. The default is
// slog.Default.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) {
		if l != nil {
			o.log = l
		}
	}
}

// WithOnMissing says what a limit is that is not there. The default is Full.
func WithOnMissing(m OnMissing) Option { return func(o *options) { o.onMissing = m } }

// WithSelector says by which selector the client of New places its keys: the client does not tell.
// With it, a server that does not answer holds up renewals and clean-up of no other server's locks.
// PickServer must not block.
func WithSelector(s memcache.ServerSelector) Option { return func(o *options) { o.selector = s } }

// New makes a store over the application's own client, which Close leaves open. It probes, within
// five seconds, that compare-and-swap works.
//
// The client's own selector places the keys. It must be the same in every client of the store, and
// must not move keys when a server is away: gomemcache's ServerList depends on the order of the
// list. New does not check that, as Open does. New cannot see the servers behind it: that they do not evict, which Open checks, is the
// application's to see to. Its MaxIdleConns should be as many calls as are under way at a time: the
// default of two dials again for all others.
//
// Refused with ErrInvalid and the remedy: a client whose Timeout is above five seconds, because
// calls that were given up end by it.
func New(client *memcache.Client, opts ...Option) (driver.Backend, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: nil client", driver.ErrInvalid)
	}
	if client.Timeout < 0 || client.Timeout > maxTimeout {
		return nil, fmt.Errorf("%w: memcache.Client.Timeout is %v: set it to at most %v: calls that are given up end by it", driver.ErrInvalid, client.Timeout, maxTimeout)
	}
	b, err := newBackend(opts)
	if err != nil {
		return nil, err
	}
	b.client = client
	ctx, cancel := context.WithTimeout(context.Background(), probeWithin)
	defer cancel()
	if err := b.probeCAS(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// backend is the store.
type backend struct {
	optimistic.Limiter
	client    *memcache.Client        // the application's, or nil
	selector  memcache.ServerSelector // of client, nil if it is not known
	pools     *pools                  // of the backend's own clients, or nil
	onMissing OnMissing
	info      driver.Info
	log       *slog.Logger
	clock     func() time.Time
	ahead     limits.Ahead
	shared    *sharedLocker
	turns     *optimistic.Table[*memcache.Item] // which remembers nothing
	calls     *calls.Calls
}

var _ driver.Backend = (*backend)(nil)

func newBackend(opts []Option) (*backend, error) {
	o := options{log: slog.Default()}
	for _, opt := range opts {
		opt(&o)
	}
	if o.onMissing != Full && o.onMissing != Empty {
		return nil, fmt.Errorf("%w: OnMissing %d: want Full or Empty", driver.ErrInvalid, o.onMissing)
	}
	b := &backend{
		turns: optimistic.NewTable[*memcache.Item](0), onMissing: o.onMissing, selector: o.selector, log: o.log, clock: time.Now, calls: calls.New(calls.Options{ErrClosing: errClosing}),
		info: driver.Info{
			Name: "memcached", MinTTL: minTTL, TTLStep: ttlStep, MaxTTL: maxTTL, Claims: slices.Clone(Claims),
		},
	}
	b.Limiter = optimistic.NewLimiter(b.update)
	b.shared = newShared(b)
	return b, nil
}

// Info implements driver.Backend.
func (b *backend) Info() driver.Info {
	info := b.info
	info.Claims = slices.Clone(info.Claims)
	return info
}

// Partition implements driver.Backend: the address of the server of key. Behind an
// application's client whose selector is not known all keys are of one part.
func (b *backend) Partition(key string) string {
	n := nameOf(key)
	if b.pools != nil {
		return b.pools.to(n).addr
	}
	if b.selector == nil {
		return ""
	}
	addr, err := b.selector.PickServer(n.key(lockKind))
	if err != nil {
		return "" // a call says why
	}
	return addr.String()
}

// Ping implements driver.Operator. It asks all servers at once: one that does not answer does not
// keep the others from being asked.
func (b *backend) Ping(ctx context.Context) error {
	ping := func(c *call) (struct{}, error) {
		if err := c.client.Ping(); err != nil {
			return struct{}{}, notSent(err)
		}
		return struct{}{}, nil
	}
	if b.pools == nil {
		_, err := run(ctx, b, name{}, ping)
		return err
	}
	if err := b.calls.Ready(ctx); err != nil {
		return err
	}
	return errors.Join(b.pools.each(func(p *pool) error {
		_, err := runOn(ctx, b, p, ping)
		return err
	})...)
}

// closeWaits is how long Close waits for calls on the application's client, whose servers may be silent.
const closeWaits = 2 * time.Second

// Close implements driver.Backend.
func (b *backend) Close() (err error) {
	if !b.calls.Close() {
		return nil
	}
	if b.pools != nil {
		err = b.pools.close()
	}
	b.calls.Wait(closeWaits)
	return err
}
