package coord

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/hold"
	"github.com/coordgo/coord/internal/permit"
	"github.com/coordgo/coord/observe"
)

// maxOption bounds every duration of a lock, so that no sum of them overflows.
const maxOption = 10 * 366 * 24 * time.Hour

// DefaultTTL is the lease of a lock without a TTL option.
const DefaultTTL = 30 * time.Second

// Option configures a Client.
type Option func(*settings) error

type settings struct {
	prefix   string
	logger   *slog.Logger
	holder   string
	defaults []LockOption
	policy   FailurePolicy
	required []driver.Claim
	floor    Token

	bestEffort bool
	observers  []observe.Observer
	leases     *permit.Policy
	overrides  bool
	callers    bool
}

// WithPrefix puts s before every key, verbatim: end it with a separator. At
// most MaxPrefix bytes of UTF-8, without NUL.
func WithPrefix(s string) Option {
	return func(o *settings) error {
		if s == "" {
			o.prefix = ""
			return nil
		}
		if err := checkKey(s); err != nil || len(s) > MaxPrefix {
			return fmt.Errorf("%w: prefix %q: want at most %d bytes of UTF-8, without NUL", ErrInvalid, s, MaxPrefix)
		}
		o.prefix = s
		return nil
	}
}

// WithLogger sets where the Client logs: warnings of what needs a person's
// attention, nothing in normal work. The default is slog.Default().
func WithLogger(l *slog.Logger) Option {
	return func(o *settings) error {
		if l == nil {
			return fmt.Errorf("%w: nil logger", ErrInvalid)
		}
		o.logger = l
		return nil
	}
}

// WithObserver calls the functions of o for what the Client does. Given several
// times, each observer is called, in that order.
func WithObserver(o observe.Observer) Option {
	return func(s *settings) error {
		s.observers = append(s.observers, o)
		return nil
	}
}

// WithLockDefaults sets options for every lock; those of a call override them.
func WithLockDefaults(opts ...LockOption) Option {
	return func(o *settings) error {
		o.defaults = append(o.defaults, opts...)
		return nil
	}
}

// WithHolderName sets the name under which the store shows this client's holds:
// printable ASCII without spaces, 1 to 64 bytes. The default is the host's
// name.
func WithHolderName(s string) Option {
	return func(o *settings) error {
		if err := checkHolderName(s); err != nil {
			return err
		}
		o.holder = s
		return nil
	}
}

func checkHolderName(s string) error {
	if s == "" || holderName(s) != s {
		return fmt.Errorf("%w: holder name %q: want 1 to %d bytes of printable ASCII without spaces", ErrInvalid, s, driver.MaxName)
	}
	return nil
}

// holderName is s with everything that an id cannot carry replaced or cut.
func holderName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, s)
	return s[:min(len(s), driver.MaxName)]
}

// FailurePolicy says what a limit answers when its store cannot.
type FailurePolicy int

const (
	// FailClosed returns the store's error: nothing is admitted. The default.
	FailClosed FailurePolicy = iota
	// FailOpen admits, and says so in Result.Degraded. The bound of the limit
	// does not hold meanwhile.
	FailOpen
)

// WithFailurePolicy sets what limits answer when the store is unavailable.
// Locks always fail closed.
func WithFailurePolicy(p FailurePolicy) Option {
	return func(o *settings) error {
		if p != FailClosed && p != FailOpen {
			return fmt.Errorf("%w: failure policy %d: want FailClosed or FailOpen", ErrInvalid, p)
		}
		o.policy = p
		return nil
	}
}

// WithRequired refuses, with ErrUnsupported, a store that does not claim all
// that the application relies on.
func WithRequired(claims ...driver.Claim) Option {
	return func(o *settings) error {
		known := driver.Claims(driver.AllClaims())
		for _, c := range claims {
			if !known.Has(c) {
				return fmt.Errorf("%w: claim %q: want one of %v", ErrInvalid, c, known)
			}
		}
		o.required = append(o.required, claims...)
		return nil
	}
}

// WithBestEffort lets AllowAll work on a store that cannot take several limits in one
// step: it takes them one after the other, the tightest first, and gives back what it
// took when one is denied. No bound is ever exceeded. What cannot be given back counts as
// spent: permits of a token bucket, which are due at once, and those of a
// client that dies in between; and two calls at once may deny each other although one
// of them had room. On a store that claims driver.AtomicMulti it changes nothing.
func WithBestEffort() Option {
	return func(o *settings) error {
		o.bestEffort = true
		return nil
	}
}

// WithTokenFloor makes every token of the Client greater than t, so that
// fencing goes on when the locks move to another store. All clients of the new
// store use the same floor, for as long as a resource remembers old tokens. It
// leaves half of the range to the store: a greater one is ErrInvalid.
func WithTokenFloor(t Token) Option {
	return func(o *settings) error {
		if t < 0 || t > hold.MaxFloor {
			return fmt.Errorf("%w: token floor %d: want 0 to %d", ErrInvalid, t, int64(hold.MaxFloor))
		}
		o.floor = t
		return nil
	}
}

// LockOption configures one lock.
type LockOption struct {
	field lockField
	value time.Duration
	count int64       // of fieldWeight and fieldMaxWaiting
	name  string      // of fieldHolder alone
	again *lockConfig // of fieldOfWait alone: that of the lock that was given up
}

type lockField uint16

const (
	fieldTTL lockField = 1 << iota
	fieldWait
	fieldMaxHold
	fieldMinHold
	fieldNoRenew
	fieldFair
	fieldOfSeveral // the lock is one of a DoAll
	fieldOfLead    // the lock is a term of a Lead
	fieldOfWait    // the lock is taken again by a Cond.Wait
	fieldHolder
	fieldWeight
	fieldMaxWaiting
)

var lockFieldNames = map[lockField]string{
	fieldTTL: "TTL", fieldWait: "WaitAtMost", fieldMaxHold: "MaxHold", fieldMinHold: "MinHold",
	fieldWeight: "Weight", fieldMaxWaiting: "MaxWaiting",
}

// TTL is the lease: how long the key stays taken when its holder dies. It is
// renewed every third of it while the lock is held. It is at least a millisecond and at most
// the store's Info.MaxTTL. The store's Info.MinTTL counts in place of a shorter one,
// which is logged once, and its step rounds it up: [Lock.TTL] says to what.
func TTL(d time.Duration) LockOption { return LockOption{field: fieldTTL, value: d} }

// WaitAtMost bounds the wait of Lock, besides ctx. With TryLock it is ErrInvalid.
func WaitAtMost(d time.Duration) LockOption { return LockOption{field: fieldWait, value: d} }

// MaxHold ends the hold this long after it was granted, with ErrMaxHold,
// however long its holder works: a millisecond to ten years, and not below MinHold.
func MaxHold(d time.Duration) LockOption { return LockOption{field: fieldMaxHold, value: d} }

// MinHold keeps the key taken for at least this long after the grant. Unlock
// returns at once; the store frees the key when it is due. A holder that dies
// keeps it taken for the longer of TTL and MinHold. A millisecond to Info.MaxTTL.
func MinHold(d time.Duration) LockOption { return LockOption{field: fieldMinHold, value: d} }

// NoRenew leaves the lease to run out: the hold ends after one TTL, or MinHold if
// that is longer, with ErrLost.
func NoRenew() LockOption { return LockOption{field: fieldNoRenew, value: 1} }

// Fair grants in the order of asking, over all clients. If all clients use it for a
// key, nobody overtakes anybody. Where some do not, a client that holds the key without
// Fair may pass it between its own goroutines for 50 ms after the store's grant, ahead of
// a fair waiter of another client. It is ErrUnsupported on a store that does not claim
// driver.Fair.
func Fair() LockOption { return LockOption{field: fieldFair, value: 1} }

// HolderName is the name under which the store shows this hold, as Holder.Name of Inspect and
// Watch: "10.0.0.7:8080", say, so that others find the leader. It is printable ASCII without spaces, 1 to
// 64 bytes. The default is the client's, which WithHolderName sets. A hold is not handed over inside the
// client between holders of different names.
func HolderName(name string) LockOption {
	return LockOption{field: fieldHolder, value: 1, name: name}
}

// Weight is how many permits of a [Client.Semaphore] the lock takes at once: 1, the default, to all of them. More than there
// are is ErrExceedsBound; with any other lock it is ErrInvalid.
func Weight(n int) LockOption { return LockOption{field: fieldWeight, value: 1, count: int64(n)} }

// MaxWaiting refuses the lock at once, with ErrLocked, where n goroutines of this Client wait for the key already,
// so that a queue does not grow without end. n is at least 1. With TryLock, which never waits, it changes nothing.
func MaxWaiting(n int) LockOption {
	return LockOption{field: fieldMaxWaiting, value: 1, count: int64(n)}
}

// lockConfig is what the options of one lock come to.
type lockConfig struct {
	given     lockField // what the call itself set
	ttl       time.Duration
	lease     time.Duration // what is asked of the store
	wait      time.Duration // 0: ctx alone bounds the wait
	maxHold   time.Duration // 0: none
	minHold   time.Duration
	noRenew   bool
	fair      bool
	holder    string
	ofSeveral bool
	ofLead    bool
	weight    int64 // of a semaphore's permits; 0: not given
	waiting   int   // 0: however many wait
}

// spec asks the engine for key, which the store has as full.
func (cfg *lockConfig) spec(key, full string, o *owner) hold.Spec {
	return hold.Spec{
		Name: key, Key: full, Owner: o, Holder: cfg.holder,
		Lease: cfg.lease, MaxHold: cfg.maxHold, MinHold: cfg.minHold, NoRenew: cfg.noRenew, Fair: cfg.fair,
		MaxWaiting: cfg.waiting,
	}
}

func (cfg *lockConfig) set(o LockOption) error {
	if o.field != 0 && (o.value <= 0 || o.value > maxOption) {
		return fmt.Errorf("%w: %s %v: want above 0, at most %v", ErrInvalid, lockFieldNames[o.field], o.value, maxOption)
	}
	if o.field&(fieldTTL|fieldMaxHold|fieldMinHold) != 0 && o.value < time.Millisecond {
		hint := ""
		if day := 24 * time.Hour; o.value.Nanoseconds() <= int64(day/time.Second) {
			hint = fmt.Sprintf("; did you mean %d*time.Second?", o.value.Nanoseconds())
		}
		return fmt.Errorf("%w: %s of %v: want at least 1ms%s", ErrInvalid, lockFieldNames[o.field], o.value, hint)
	}
	switch o.field {
	case fieldTTL:
		cfg.ttl = o.value
	case fieldWait:
		cfg.wait = o.value
	case fieldMaxHold:
		cfg.maxHold = o.value
	case fieldMinHold:
		cfg.minHold = o.value
	case fieldNoRenew:
		cfg.noRenew = true
	case fieldFair:
		cfg.fair = true
	case fieldHolder:
		if err := checkHolderName(o.name); err != nil {
			return err
		}
		cfg.holder = o.name
	case fieldWeight, fieldMaxWaiting:
		if o.count < 1 || o.count > driver.MaxPermits {
			return fmt.Errorf("%w: %s of %d: want 1 to %d", ErrInvalid, lockFieldNames[o.field], o.count, int64(driver.MaxPermits))
		}
		if o.field == fieldWeight {
			cfg.weight = o.count
		} else {
			cfg.waiting = int(min(o.count, math.MaxInt))
		}
	case fieldOfSeveral:
		cfg.ofSeveral = true
	case fieldOfLead:
		cfg.ofLead = true
	case fieldOfWait:
		*cfg = *o.again
		cfg.wait, cfg.waiting = 0, 0 // who gave the lock up gets it back, however long that takes
	default:
		return fmt.Errorf("%w: empty LockOption", ErrInvalid)
	}
	cfg.given |= o.field
	return nil
}

// lockConfig puts the options of a call over the client's defaults. The result
// is not to be changed.
func (c *Client) lockConfig(opts []LockOption) (*lockConfig, error) {
	if len(opts) == 0 {
		return &c.defaults, nil
	}
	cfg := c.defaults
	for _, o := range opts {
		if err := cfg.set(o); err != nil {
			return nil, err
		}
	}
	return &cfg, c.checkLockConfig(&cfg)
}

// checkLockConfig holds cfg against the store and against itself, and rounds its TTL.
func (c *Client) checkLockConfig(cfg *lockConfig) error {
	if cfg.maxHold > 0 && cfg.minHold > cfg.maxHold {
		return fmt.Errorf("%w: MinHold %v above MaxHold %v", ErrInvalid, cfg.minHold, cfg.maxHold)
	}
	if cfg.fair && !c.info.Claims.Has(driver.Fair) {
		return fmt.Errorf("%w: Fair on %s, which does not claim %q", ErrUnsupported, c.info.Name, driver.Fair)
	}
	for _, d := range [...]time.Duration{cfg.ttl, cfg.minHold} {
		if limit := c.info.MaxTTL; limit > 0 && d > limit {
			return fmt.Errorf("%w: TTL or MinHold of %v: want at most %v on %s", ErrInvalid, d, limit, c.info.Name)
		}
	}
	if cfg.ofSeveral && (cfg.noRenew || cfg.minHold > 0) {
		return fmt.Errorf("%w: NoRenew or MinHold with several keys: want neither, also not as a default of the client", ErrInvalid)
	}
	if cfg.ofLead {
		if cfg.noRenew || cfg.minHold > 0 || cfg.given&fieldWait != 0 {
			return fmt.Errorf("%w: WaitAtMost, NoRenew or MinHold with Lead: want none, NoRenew and MinHold also not as defaults of the client", ErrInvalid)
		}
		cfg.wait = 0 // a default of the client is for locks: a campaign waits as long as it takes
	}
	if cfg.ttl < c.info.MinTTL {
		c.raised.Do(func() {
			c.log.Warn("coord: a TTL is below the least of the store, which counts instead; more of them are not logged", "ttl", cfg.ttl, "least", c.info.MinTTL, "store", c.info.Name)
		})
	}
	// The lease covers MinHold, so that the key stays taken even if the holder dies.
	cfg.lease = roundTTL(max(cfg.ttl, cfg.minHold), c.info)
	return nil
}

// roundTTL rounds d up to what the store can do.
func roundTTL(d time.Duration, info driver.Info) time.Duration {
	d = max(d, info.MinTTL)
	if step := info.TTLStep; step > 0 {
		if rest := d % step; rest > 0 {
			d += step - rest
		}
	}
	return d
}
