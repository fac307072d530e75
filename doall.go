package coord

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coordgo/coord/internal/errs"
)

// DoAll holds all of keys while fn runs, or none of them. [Held] gives each lock inside fn. fn's ctx
// ends with cause ErrLost when any of them is lost. The errors are those of [Do].
//
// Keys are taken one after the other in byte order, each once, whatever order was given: callers that
// hold nothing else never deadlock. A key under which ctx was made is re-entered. One that
// the caller holds and that comes after a key to be taken can deadlock with another such caller, and is logged.
// On refusal, the end of ctx, a loss or a panic, what was taken is given back in reverse.
//
// WaitAtMost bounds the whole wait. MaxHold counts for each key from its own grant. NoRenew is
// ErrInvalid, for early leases would run out during the wait, and so is MinHold, which would keep keys
// after a refusal. There may be 1 to MaxDemands keys. It costs the requests of one Do for each key, one
// after the other.
//
// Where keys have other options than one another, nest calls of Do, the one that fewest others want first.
func DoAll(ctx context.Context, l Locker, keys []string, fn func(context.Context) error, opts ...LockOption) error {
	m, err := newMultiLock("doall", l, keys, fn, opts)
	if err != nil {
		return &Error{Op: "doall", Err: err}
	}
	m.warnOfOrder(ctx)
	return m.take(ctx, 0)
}

// TryDoAll is DoAll with one attempt for each key. ran is false, with a nil error, when someone else holds
// one of them; it is true when fn ran, whatever came of it.
func TryDoAll(ctx context.Context, l Locker, keys []string, fn func(context.Context) error, opts ...LockOption) (ran bool, err error) {
	m, err := newMultiLock("trydoall", l, keys, fn, opts)
	if err == nil && m.given&fieldWait != 0 {
		err = errTryWait
	}
	if err != nil {
		return false, &Error{Op: "trydoall", Err: err}
	}
	m.tries = true
	err = m.take(ctx, 0)
	return m.ran, err
}

// multiLock is one DoAll or TryDoAll.
type multiLock struct {
	op     string
	l      Locker
	client *Client  // behind l, as far as that can be told
	space  space    // of l
	keys   []string // sorted, each once
	fn     func(context.Context) error
	opts   []LockOption // but WaitAtMost
	given  lockField
	until  time.Time         // the end of WaitAtMost; zero: ctx alone bounds the wait
	held   []context.Context // of each key that is held
	tries  bool              // it makes one attempt for each key
	ran    bool
}

func newMultiLock(op string, l Locker, keys []string, fn func(context.Context) error, opts []LockOption) (*multiLock, error) {
	m := &multiLock{op: op, l: l, keys: slices.Compact(slices.Sorted(slices.Values(keys))), fn: fn}
	if n := len(m.keys); n == 0 || n > MaxDemands {
		return nil, fmt.Errorf("%w: %d keys: want 1 to %d", ErrInvalid, n, MaxDemands)
	}
	for _, key := range m.keys {
		if err := checkKey(key); err != nil {
			return nil, err
		}
	}
	var cfg lockConfig
	if m.client, m.space = clientBehind(l); m.client != nil {
		cfg.wait = m.client.defaults.wait
	}
	for _, o := range opts {
		if err := cfg.set(o); err != nil {
			return nil, err
		}
		if o.field != fieldWait {
			m.opts = append(m.opts, o)
		}
	}
	m.opts, m.given = append(m.opts, LockOption{field: fieldOfSeveral, value: 1}), cfg.given
	if cfg.wait > 0 {
		m.until = time.Now().Add(cfg.wait)
	}
	return m, nil
}

// clientBehind is the Client that l is, embeds or is a view of, and whose keys l has; nil if there is none, or that cannot
// be told.
func clientBehind(l Locker) (*Client, space) {
	if c, ok := l.(interface{ itself() (*Client, space) }); ok {
		return c.itself()
	}
	return nil, exclusive
}

func (c *Client) itself() (*Client, space) { return c, exclusive }

// take takes the i-th key and those after it, and runs fn.
func (m *multiLock) take(ctx context.Context, i int) error {
	if i == len(m.keys) {
		return m.run(ctx)
	}
	key, opts := m.keys[i], m.opts
	next := func(ctx context.Context) error {
		m.held = append(m.held, ctx)
		return m.take(ctx, i+1)
	}
	if m.tries {
		_, err := TryDo(ctx, m.l, key, next, opts...)
		return err
	}
	if !m.until.IsZero() {
		left := time.Until(m.until)
		if i > 0 && left <= 0 && !m.holds(ctx, key) {
			return &Error{Op: m.op, Key: key, Err: errs.Chain(ErrLocked, errWaitOver)}
		}
		opts = append(slices.Clip(opts), WaitAtMost(max(left, 1)))
	}
	return Do(ctx, m.l, key, next, opts...)
}

// run runs fn, if all keys are still held.
func (m *multiLock) run(ctx context.Context) error {
	for _, held := range m.held {
		if held.Err() != nil {
			return &Error{Op: m.op, Err: errs.ContextError(held)}
		}
	}
	m.ran = true
	return m.fn(ctx)
}

// holds reports whether key would be entered under ctx.
func (m *multiLock) holds(ctx context.Context, key string) bool {
	if m.client == nil {
		return false
	}
	n, _ := linkOf(ctx).entry(entryKey{m.client, m.space, key})
	return n != nil
}

// warnOfOrder logs, once for a client, that the caller holds a key after one that it asks for.
func (m *multiLock) warnOfOrder(ctx context.Context) {
	if m.client == nil || linkOf(ctx) == nil {
		return
	}
	at := slices.IndexFunc(m.keys, func(key string) bool { return !m.holds(ctx, key) })
	if at < 0 {
		return
	}
	if held := m.holdsAfter(ctx, m.keys[at]); held != "" {
		m.client.disorder.Do(func() {
			m.client.log.Warn("coord: several keys are taken under one that comes after them: two callers that do so may wait for each other without end",
				"key", m.keys[at], "held", held)
		})
	}
}

// holdsAfter gives a key after key that is held under ctx, "" if there is none.
func (m *multiLock) holdsAfter(ctx context.Context, key string) (after string) {
	linkOf(ctx).each(func(of entryKey, _ *Lock) bool {
		if of.c == m.client && of.space == m.space && of.key > key {
			after = of.key
		}
		return after == ""
	})
	return after
}
