package coord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/hold"
	"github.com/coordgo/coord/internal/host"
	"github.com/coordgo/coord/internal/partition"
	"github.com/coordgo/coord/internal/permit"
	"github.com/coordgo/coord/internal/storecall"
	"github.com/coordgo/coord/internal/trace"
)

// Locker takes locks by key. [*Client] is one.
type Locker interface {
	// Lock waits until it holds key, or ctx ends. The hold is renewed until
	// Unlock, loss or MaxHold; ctx governs the waiting only. A wait that ran out
	// matches both ErrLocked and ctx's cause.
	//
	// A store that cannot be reached fails the call at once. A waiter that is
	// already in the queue rides out an outage of up to one TTL. A store that says
	// when it will serve, as a quorum of new servers, is waited for if ctx
	// and WaitAtMost allow so long; else the call fails at once, and RetryAfter says when.
	Lock(ctx context.Context, key string, opts ...LockOption) (*Lock, error)
	// TryLock makes one attempt; ErrLocked if someone else holds key.
	TryLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error)
}

// Limiter takes permits by key. [*Client] is one. A denial is a Result with
// Allowed false and a nil error.
type Limiter interface {
	// Allow takes one permit if there is one now.
	Allow(ctx context.Context, key string, limit Limit) (Result, error)
	// AllowN takes n permits, or none. n above what the limit ever grants at
	// once is ErrExceedsBurst; n below 0 is ErrInvalid; n = 0 is Peek.
	AllowN(ctx context.Context, key string, limit Limit, n int) (Result, error)
	// Wait waits for one permit. If ctx's deadline comes before the permit
	// can, Wait returns at once, with ErrLimited and context.DeadlineExceeded.
	Wait(ctx context.Context, key string, limit Limit) error
	// WaitN waits for n permits; callers of one Client are served in order.
	WaitN(ctx context.Context, key string, limit Limit, n int) error
}

// Client is a Locker and a Limiter over one store. It is safe for concurrent
// use. Make it with [Open] or [New], one per process and store, and Close it.
type Client struct {
	backend driver.Backend
	store   lockStore
	info    driver.Info

	prefix   string
	log      *slog.Logger
	holder   string
	defaults lockConfig
	policy   FailurePolicy
	floor    int64

	bestEffort bool
	callers    bool          // holders are named by who asks
	disorder   sync.Once     // warned of keys out of order
	raised     sync.Once     // warned of a TTL below the least of the store
	mixture    sync.Once     // warned of one key as an exclusive and as a shared one
	clashes    clashes       // warned of one key under two limits
	trace      *trace.Client // nil without observers

	calls   storecall.Calls
	clock   *clock.Clock
	jitter  func(key string, d time.Duration) time.Duration
	locks   *hold.Manager
	shared  *hold.Manager // of keys that several hold; nil if the store keeps none
	permits *permit.Pool

	overrides *overrides // nil if the client applies none

	state atomic.Int32  // stateOpen, stateDraining, stateClosed
	done  chan struct{} // closed when Close is through
	ids   ids
}

// The states of a Client, in order.
const (
	stateOpen int32 = iota
	stateDraining
	stateClosed
)

// lockStore is the part of a backend that locks.
type lockStore struct {
	hold.Store
	backend driver.Backend
	claims  driver.Claims
	shared  driver.SharedLocker // nil if it claims none
}

// New makes a Client of an open backend. Close of the Client closes the
// backend, which in turn leaves open what the application passed to it.
func New(b driver.Backend, opts ...Option) (*Client, error) {
	if b == nil {
		return nil, &Error{Op: "new", Err: fmt.Errorf("%w: nil backend", ErrInvalid)}
	}
	c := &Client{
		backend: b,
		info:    b.Info(),
		done:    make(chan struct{}),
		ids:     newIDs(),
	}
	h := host.Of(b)
	c.clock, c.jitter = h.Clock, h.Jitter
	policy, err := c.configure(opts)
	if err != nil {
		return nil, c.fail("new", "", err)
	}
	c.calls.Called = c.trace.StoreCalled()
	locks, limits := driver.LocksAndLimits(b)
	locks, limits = c.calls.Backend(locks), c.calls.Backend(limits)
	c.connectLocks(locks)
	if c.overrides != nil {
		if err := c.mayOverride(); err != nil {
			return nil, c.fail("new", "", err)
		}
	}
	pool := permit.Config{Store: c.connectLimits(limits), Info: limits.Info(), Clock: c.clock, NewID: c.newID}
	if c.trace != nil {
		pool.Ended = c.trace.LeaseEnded
	}
	c.permits = permit.New(pool, policy)
	engine := hold.Config{Store: c.store.Store, Clock: c.clock, Log: c.log, NewID: c.ids.next, Jitter: c.jitter, Floor: c.floor, Beside: c.ids.beside}
	c.locks = hold.New(engine)
	c.connectShared(engine)
	return c, nil
}

// connectLocks finds, by its claims, what the part of the store that locks can do.
func (c *Client) connectLocks(locks driver.Backend) {
	s, claims := &c.store, locks.Info().Claims
	s.backend, s.claims = locks, claims
	s.Locker, s.Parts = locks, partition.New(locks)
	s.Delayed, s.Pushes = claims.Has(driver.MinHoldAfterExit), claims.Has(driver.LossPush)
	if claims.Has(driver.Fair) || claims.Has(driver.Wake) {
		s.Queuer = locks
	}
	if claims.Has(driver.Shared) {
		s.shared = locks.Shared()
	}
}

// connectLimits finds, by its claims, what the part of the store that limits can do.
func (c *Client) connectLimits(limits driver.Backend) permit.Store {
	claims := limits.Info().Claims
	return permit.Store{
		Limiter: limits, Parts: partition.New(limits),
		Refunds: claims.Has(driver.Reserve), Charges: claims.Has(driver.Charge), TakesAll: claims.Has(driver.AtomicMulti),
	}
}

// configure applies the options, save for the leases, which it returns.
func (c *Client) configure(opts []Option) (*permit.Policy, error) {
	host, _ := os.Hostname() // without a name the holder is "unknown"
	if host == "" {
		host = "unknown"
	}
	o := settings{logger: slog.Default(), holder: holderName(host)}
	for _, opt := range opts {
		if err := opt(&o); err != nil {
			return nil, err
		}
	}
	if missing := c.info.Claims.Missing(o.required...); len(missing) > 0 {
		return nil, fmt.Errorf("%w: %s does not claim %s, which is required; it claims %s", ErrUnsupported, c.info.Name, claimList(missing), claimList(c.info.Claims))
	}
	c.prefix, c.log, c.holder, c.policy, c.bestEffort = o.prefix, o.logger, o.holder, o.policy, o.bestEffort
	c.callers = o.callers
	c.calls = storecall.Calls{Store: c.info.Name, Log: o.logger, Clock: c.clock}
	if len(o.observers) > 0 {
		c.trace = &trace.Client{Backend: c.info.Name, Prefix: c.prefix, Clock: c.clock, Log: c.log}
		c.trace.Observe(o.observers)
	}
	if o.floor > 0 {
		c.floor = hold.Floor(o.floor)
	}
	c.defaults.ttl, c.defaults.holder = DefaultTTL, o.holder
	if limit := c.info.MaxTTL; limit > 0 {
		c.defaults.ttl = min(c.defaults.ttl, limit)
	}
	for _, lo := range o.defaults {
		if err := c.defaults.set(lo); err != nil {
			return nil, err
		}
	}
	if o.overrides {
		c.overrides = newOverrides(c)
	}
	err := c.checkLockConfig(&c.defaults)
	c.defaults.given = 0
	return o.leases, err
}

// claimList is a list of claims as a person reads it.
func claimList(claims driver.Claims) string {
	words := make([]string, len(claims))
	for i, c := range claims {
		words[i] = string(c)
	}
	return strings.Join(words, ", ")
}

// Info describes the store: its name, version, ranges and claims.
func (c *Client) Info() driver.Info { return c.info }

// Ping makes one round trip to the store, to each of two after [driver.Split], for
// readiness probes.
func (c *Client) Ping(ctx context.Context) error {
	_, err := aboutStore(ctx, c, "ping", func(ctx context.Context) (none struct{}, err error) {
		if err = c.backend.Ping(ctx); errors.Is(err, ErrUnsupported) {
			err = nil
		}
		return none, err
	})
	return err
}

// Describe tells how the store is set up, as far as it tells: its topology, and the settings
// on which its claims lean, by name. After [driver.Split] the names begin with that of the store.
func (c *Client) Describe(ctx context.Context) (map[string]string, error) {
	return aboutStore(ctx, c, "describe", c.backend.Describe)
}

// Check compares how the store is set up with what its locks and limits need, as coord doctor
// shows it. A store whose adapter does not look has no findings. After [driver.Split] the names
// begin with that of the store. ErrUnavailable if no server of a store answers.
func (c *Client) Check(ctx context.Context) ([]driver.Finding, error) {
	return aboutStore(ctx, c, "check", c.backend.Check)
}

// aboutStore asks the store what is of no key.
func aboutStore[T any](ctx context.Context, c *Client, op string, ask func(context.Context) (T, error)) (v T, err error) {
	if c.state.Load() == stateClosed {
		return v, c.fail(op, "", ErrClosed)
	}
	err = c.calls.Quietly(op, func() (err error) {
		v, err = ask(ctx)
		return err
	})
	if err != nil {
		var none T
		return none, c.fail(op, "", errs.OfStore(ctx, err, false))
	}
	return v, nil
}

// Inspect shows who holds key. ErrNotHeld if nobody does; ErrUnsupported on a
// store that cannot show it. A lock that was handed over inside a client is shown with the
// token of the store's grant: that of its holder is greater, and less than the next grant's.
func (c *Client) Inspect(ctx context.Context, key string) (Holder, error) {
	h, err := c.inspect(ctx, key)
	if err != nil {
		return Holder{}, c.fail("inspect", key, err)
	}
	return h, nil
}

// Holder is what a store shows of the hold on a key.
type Holder = driver.Holder

func (c *Client) inspect(ctx context.Context, key string) (Holder, error) {
	full, err := c.openKey(key)
	switch {
	case err != nil:
		return Holder{}, err
	case !c.store.claims.Has(driver.Inspect):
		return Holder{}, ErrUnsupported
	}
	h, err := c.store.backend.Inspect(ctx, full)
	if err != nil {
		return Holder{}, errs.OfStore(ctx, err, false)
	}
	h.Token, err = hold.MakeToken(int64(h.Token), c.floor, 0)
	return h, err
}

// Break revokes a hold, as an operator would: the holder's next renewal fails,
// and the key stays taken until the holder's lease lapses, so that the holder
// knows before anyone else is granted. holderID is Holder.ID from Inspect, so
// that a later holder is never hit; ErrNotHeld if it holds no longer.
func (c *Client) Break(ctx context.Context, key, holderID string) error {
	return c.revoke(ctx, key, c.openKey, func(full string) error {
		if !c.store.claims.Has(driver.Break) {
			return ErrUnsupported
		}
		return c.store.backend.Break(ctx, full, holderID)
	})
}

// BreakNow frees key at once, also one that is only kept taken for its last holder, by [MinHold] or after [Client.Break].
// It voids the guarantee of exclusion: until the holder's next renewal or deadline, two may believe that they hold. Use
// it only when the holder is known to be dead. A key that somebody else has taken since is left alone. ErrNotHeld if
// holderID has nothing of key.
func (c *Client) BreakNow(ctx context.Context, key, holderID string) error {
	return c.revoke(ctx, key, c.openKey, func(full string) error {
		if c.store.claims.Has(driver.Break) {
			return c.store.backend.BreakNow(ctx, full, holderID)
		}
		return c.store.Unlock(ctx, full, holderID)
	})
}

// openKey is the key as the store has it, if the client is not closed.
func (c *Client) openKey(key string) (string, error) {
	full, err := c.fullKey(key)
	if err == nil && c.state.Load() == stateClosed {
		err = ErrClosed
	}
	return full, err
}

// revoke does it to the key, as the store has that.
func (c *Client) revoke(ctx context.Context, key string, atStore func(key string) (string, error), do func(full string) error) error {
	full, err := atStore(key)
	if err == nil {
		if err = do(full); err == nil {
			return nil
		}
		err = errs.OfStore(ctx, err, true)
	}
	if errors.Is(err, ErrNotHeld) {
		err = fmt.Errorf("%w by this holder", err)
	}
	return c.fail("break", key, err)
}
