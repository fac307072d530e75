package zookeeper

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
	calls "github.com/coordgo/coord/driver/call"
	"github.com/coordgo/coord/driver/cas"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/driver/optimistic"
)

const (
	// maxTTL is longer than any hold should be without renewal.
	maxTTL = 30 * 24 * time.Hour
	// maxKey is the longest name, prefix included: escaped it is three times as long,
	// and a path has to fit in a request of a megabyte.
	maxKey = 64 << 10
	// defaultRoot is where everything is, unless the URL has a path.
	defaultRoot = "/coord"
	// probeWithin bounds New, which has no ctx.
	probeWithin = 5 * time.Second
	// minSession and maxSession bound the session timeout that may be asked for.
	minSession = 200 * time.Millisecond
	maxSession = time.Hour
)

// Claims are what this store promises; the conformance suite proves them.
var Claims = driver.Claims{
	driver.Fair, driver.Wake, driver.LossPush, driver.Inspect, driver.Break, driver.List, driver.Shared,
	driver.TokenProcess, driver.TokenRestart, driver.TokenFailover,
	driver.DurableRestart, driver.DurableFailover, driver.NoEviction,
	driver.ServerClock, driver.AtomicMulti, driver.Reserve, driver.Charge, driver.ScopeHosts,
}

// Option configures New.
type Option func(*options)

type options struct {
	session time.Duration
	root    string
	acl     []zk.ACL
}

// WithSessionTimeout states the session timeout of the connection, from 200ms to an
// hour: the one that the server granted, which is the one given to zk.Connect unless
// that is outside of the server's minSessionTimeout and maxSessionTimeout (by default 2
// and 20 ticks). Every server of an ensemble must grant it. Leases last that long, and the library does
// not tell it, so New requires it.
func WithSessionTimeout(d time.Duration) Option { return func(o *options) { o.session = d } }

// WithRoot sets the path under which everything is kept. The default is /coord.
func WithRoot(path string) Option { return func(o *options) { o.root = path } }

// WithACL sets the access control list of every node that is made. The default lets
// anyone do anything.
func WithACL(acl []zk.ACL) Option { return func(o *options) { o.acl = acl } }

// New makes a store over the application's own connection, which Close leaves open. It
// waits for its session, and probes the server, within five seconds. The events
// of the connection stay the application's.
//
// Holds that are not given back before Close stay taken for their TTL, or until the
// connection is closed.
func New(conn *zk.Conn, opts ...Option) (driver.Backend, error) {
	o := options{root: defaultRoot, acl: zk.WorldACL(zk.PermAll)}
	for _, opt := range opts {
		opt(&o)
	}
	switch {
	case conn == nil:
		return nil, fmt.Errorf("%w: nil connection", driver.ErrInvalid)
	case o.session == 0:
		return nil, fmt.Errorf("%w: the session timeout of the connection is unknown: give WithSessionTimeout", driver.ErrInvalid)
	case o.session < minSession || o.session > maxSession:
		return nil, fmt.Errorf("%w: session timeout %v: want %v to %v", driver.ErrInvalid, o.session, minSession, maxSession)
	}
	if err := checkRoot(o.root); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeWithin)
	defer cancel()
	b := newBackend(conn, o)
	if err := b.probe(ctx); err != nil {
		b.calls.Close() // without a wait for the call that was left
		b.clearStrays()
		return nil, err
	}
	return b, nil
}

// backend is the store.
type backend struct {
	optimistic.Limiter
	conn    *zk.Conn
	wire    *wire           // nil: the application's connection
	ended   <-chan struct{} // closed once a connection of our own is gone
	root    string
	acl     []zk.ACL
	session time.Duration // the timeout, of the application's connection
	info    driver.Info
	clock   cas.Clock // the leader's
	states  *optimistic.Table[incarnation]
	ahead   limits.Ahead
	turns   *optimistic.Table[struct{}] // of takes of shared keys, which remembers nothing

	alone      atomic.Bool // the server is no part of an ensemble
	lastWasNew atomic.Bool // the limit that was met for the first time last
	collecting atomic.Bool // limits and guards
	sweeping   atomic.Bool // parents

	calls *calls.Calls

	mu         sync.Mutex // guards what follows
	entries    map[holdName]*entry
	parents    map[string]time.Time // known to be ours, and since when this client has no node there; zero: it may have
	watches    map[string]*watch
	lost       func(key, id string, cause error)
	lostShared func(key, id string, cause error)
	signs      signs
}

var _ driver.Backend = (*backend)(nil)

func newBackend(conn *zk.Conn, o options) *backend {
	b := &backend{
		conn: conn, root: o.root, acl: o.acl, session: o.session,
		entries: make(map[holdName]*entry), watches: make(map[string]*watch),
		parents: make(map[string]time.Time),
	}
	b.calls = calls.New(calls.Options{ErrClosing: errClosing, Down: b.down})
	now := time.Now()
	b.clock.Learn(now, now, now, 0) // which the leader's answers move as little as they can
	b.Limiter, b.states = optimistic.NewLimiter(b.update), optimistic.NewTable[incarnation](maxStates)
	b.turns = optimistic.NewTable[struct{}](0)
	return b
}

// Info implements driver.Backend.
func (b *backend) Info() driver.Info { return b.info }

// Ping implements driver.Operator.
func (b *backend) Ping(ctx context.Context) error {
	return b.run(ctx, func() error {
		_, err := b.conn.Sync(b.root)
		return err
	}, nil)
}

// NotifyLost implements driver.Locker.
func (b *backend) NotifyLost(fn func(key, id string, cause error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost = fn
}

// timeout is the session's.
func (b *backend) timeout() time.Duration {
	if b.wire != nil {
		return b.wire.timeout()
	}
	return b.session
}

// Close implements driver.Backend. It ends the session of a connection of our own, and with it what is still held.
func (b *backend) Close() error {
	if !b.calls.Close() {
		return nil
	}
	if b.wire != nil {
		b.stopTimers()
		b.awaitAnswers()
		b.hangUp()
	} else {
		b.clearStrays()
	}
	b.calls.Wait(closeWaits)
	return nil
}

// stopTimers ends the timers of holds, which end with the session.
func (b *backend) stopTimers() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.entries {
		if e.timer != nil {
			e.timer.Stop()
		}
	}
}

// closeWithin is how long a server may take to answer the end of a session.
const closeWithin = 300 * time.Millisecond

// closeWaits is how long Close waits for what is under way, which over the application's connection may get no answer.
const closeWaits = 2 * time.Second

// awaitAnswers gives requests that are under way a moment to be answered. The library gives up what is under way when
// the connection ends, and may still be reading an answer into it.
func (b *backend) awaitAnswers() {
	if b.conn.State() == zk.StateHasSession { // else there are no answers
		b.calls.Wait(closeWithin)
	}
}

// hangUp ends our own connection and waits for its goroutines.
func (b *backend) hangUp() {
	b.wire.close()
	closed := within(closeWithin, b.conn.Close)
	b.wire.cut()
	<-b.ended
	<-closed
}

// within waits for fn, for d at most. What it gives is closed when fn has returned.
func within(d time.Duration, fn func()) (returned <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(d):
	}
	return done
}
