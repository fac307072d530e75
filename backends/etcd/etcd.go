package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/batch"
	"github.com/coordgo/coord/driver/call"
	"github.com/coordgo/coord/driver/optimistic"
)

const (
	// ttlStep: etcd's leases last whole seconds.
	ttlStep = time.Second
	// maxTTL is longer than any hold should be without renewal.
	maxTTL = 30 * 24 * time.Hour
	// maxKey is the longest key, prefix included. Escaped and with an id it still is far
	// below etcd's bound for a request, 1.5 MiB.
	maxKey = 64 << 10
	// probeWithin bounds the probe of New, which has no ctx.
	probeWithin = 5 * time.Second
	// closeWithin bounds how long Close gives leases back.
	closeWithin = time.Second
	// closeWaits bounds how long it waits for calls under way, which end with it.
	closeWaits = 2 * time.Second
)

// Claims are what this store promises; the conformance suite proves them.
var Claims = driver.Claims{
	driver.Fair, driver.Wake, driver.PerHoldTTL,
	driver.Inspect, driver.Break, driver.List, driver.Shared, driver.MinHoldAfterExit,
	driver.TokenProcess, driver.TokenRestart, driver.TokenFailover,
	driver.DurableRestart, driver.DurableFailover, driver.NoEviction,
	driver.AtomicMulti, driver.Reserve, driver.Charge, driver.ScopeHosts,
}

// Option configures New.
type Option func(*options)

type options struct {
	namespace string
	log       *slog.Logger
}

// WithNamespace puts everything under namespace + "/", as the path of a URL does.
// Its segments, between slashes, are not empty and not "coord".
func WithNamespace(namespace string) Option {
	return func(o *options) { o.namespace = namespace }
}

// WithLogger sets where warnings go, of clocks that are ahead. The default is slog.Default.
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
// A client that is closed, or has no endpoint, is refused with ErrInvalid. Only its
// connection is used: what the application has wrapped around its KV, Lease and Watcher,
// by clientv3/namespace for example, is passed by. Use [WithNamespace].
//
// Make the client with [DialOptions]. Without them it sends requests to members that hang, too, until their connections are
// closed: see clientv3.Config.DialKeepAliveTime. What can be made again is made again, so that holds with a TTL of 12 s or more
// live. A TryLock, an Unlock or a decision on a limit fails if it goes to such a member.
func New(client *clientv3.Client, opts ...Option) (driver.Backend, error) {
	switch {
	case client == nil:
		return nil, fmt.Errorf("%w: nil client", driver.ErrInvalid)
	case len(client.Endpoints()) == 0:
		return nil, fmt.Errorf("%w: the client has no endpoint: set clientv3.Config.Endpoints", driver.ErrInvalid)
	case client.Ctx().Err() != nil:
		return nil, fmt.Errorf("%w: the client is closed: make a new one", driver.ErrInvalid)
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeWithin)
	defer cancel()
	b, err := newBackend(ctx, client, false, opts)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// backend is the store.
type backend struct {
	optimistic.Limiter
	locker
	remote
	own    bool // Close closes client
	names  names
	info   driver.Info
	minTTL int64 // seconds
	number int   // of this client, in the names of its entries
	log    *slog.Logger
	// recheck is how often a waiter looks at its predecessor though nothing was pushed.
	recheck time.Duration
	// headFor is how long the head of a shared key's queue lasts that does not ask again.
	headFor time.Duration

	calls *call.Calls
	close func() error

	mu       sync.Mutex
	classes  map[int64]*class            // by TTL in seconds
	granted  map[int64]*lease            // those that may still live, by id
	entries  map[place]*entry            // ours at the store
	queued   map[string]int              // how many of them, by key
	removing []*entry                    // to be removed
	making   time.Duration               // how long a request that makes an entry may take: makeWithin
	turns    *optimistic.Table[struct{}] // of takes of shared keys, which remembers nothing
	backoff  optimistic.Backoff          // of takes that another client's came before
	waits    *watches                    // of waiters

	beats   *heartbeats
	term    atomic.Uint64 // the highest raft term that was seen
	ops     opsLimit
	limits  limitTable
	batcher *batch.Batcher[*step]
}

var _ driver.Backend = (*backend)(nil)

func newBackend(ctx context.Context, client *clientv3.Client, own bool, opts []Option) (*backend, error) {
	o := options{log: slog.Default()}
	for _, opt := range opts {
		opt(&o)
	}
	n, err := newNames(o.namespace)
	if err != nil {
		return nil, err
	}
	b := &backend{
		own: own, names: n, number: 1 + rand.IntN(ownNumbers), log: o.log, recheck: recheckEvery, headFor: driver.HeadFor, making: makeWithin,
		classes: make(map[int64]*class), granted: make(map[int64]*lease),
		entries: make(map[place]*entry), queued: make(map[string]int),
	}
	b.locker.store, b.remote.client = b, client
	b.calls = call.New(call.Options{ErrClosing: errClosing})
	b.close = sync.OnceValue(b.shut)
	b.waits = newWatches(b.calls, &b.remote)
	b.beats = newHeartbeats(b.calls, &b.remote)
	b.turns = optimistic.NewTable[struct{}](0)
	b.limits.init()
	b.Limiter = optimistic.NewLimiter(b.update)
	b.batcher = b.newBatcher(maxWait)
	server, err := b.probe(ctx)
	if err != nil {
		b.own = false // whoever made the client closes it
		b.calls.Close()
		return nil, errors.Join(err, b.disconnect())
	}
	b.info = driver.Info{
		Name: "etcd", Server: server,
		MinTTL: time.Duration(b.minTTL) * time.Second, TTLStep: ttlStep, MaxTTL: maxTTL, MaxKey: maxKey,
		Claims: Claims,
	}
	return b, nil
}

// Info implements driver.Backend.
func (b *backend) Info() driver.Info {
	info := b.info
	info.Claims = slices.Clone(info.Claims)
	return info
}

// Ping implements driver.Operator by a read that takes a quorum.
func (b *backend) Ping(ctx context.Context) error {
	call, done, err := b.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = b.get(call, &pb.RangeRequest{Key: []byte(b.names.ping()), CountOnly: true})
	return err
}

// Close implements driver.Backend: it ends what is under way and gives the leases
// back, and with them whatever this client still has in any queue.
func (b *backend) Close() error { return b.close() }

// disconnect gives back what New or Open made.
func (b *backend) disconnect() error {
	if b.own {
		return b.client.Close()
	}
	return nil
}

func (b *backend) shut() error {
	b.calls.Close()
	b.calls.Wait(closeWaits)
	b.mu.Lock()
	for _, e := range b.entries {
		e.unplan()
	}
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	var revoking sync.WaitGroup
	for _, l := range b.liveLeases() {
		if b.hasHold(l) {
			continue // a hold that nobody has given back ends with its lease
		}
		// One that cannot be given back now ends by itself.
		revoking.Go(func() { b.revokeLease(ctx, l) })
	}
	revoking.Wait()
	return b.disconnect()
}
