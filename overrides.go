package coord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
)

// MaxFactor is the greatest factor of an [Override].
const MaxFactor = 1_000_000

// Override multiplies every limit under a key for a while: ten times as much for a customer until Friday.
type Override struct {
	Key    string
	Factor float64
	// Left is how long it lasts from now on.
	Left time.Duration
}

// Of is limit under the override: Rate, and Burst of a token bucket, times Factor, rounded, at least 1, at most MaxRate.
// A bucket that would be too fine to count exactly stays as it is.
func (o Override) Of(limit Limit) Limit {
	scaled := limit
	scaled.Rate = times(limit.Rate, o.Factor)
	if limit.Burst > 0 {
		scaled.Burst = times(limit.Burst, o.Factor)
	}
	if _, err := scaled.Normal(); err != nil {
		return limit
	}
	return scaled
}

func times(n int, factor float64) int {
	return int(min(max(math.Round(float64(n)*factor), 1), driver.MaxRate))
}

// WithOverrides makes the client apply the overrides that [Client.Override] has put into the store. It reads them, all
// in one request, once a second at most and only while it decides on limits. No decision waits for that: an override is
// applied up to a second late, or later while the store does not answer, and never longer than it lasts. Permits that
// were taken in advance under the limit of before are spent first.
//
// The store has to support them: see [Client.Override].
func WithOverrides() Option {
	return func(o *settings) error {
		o.overrides = true
		return nil
	}
}

// Override multiplies every limit under key by factor for d, in all clients of the store that are made [WithOverrides].
// An override of the key that is there is replaced. What was taken counts on. A token bucket with another rate is a bucket
// of its own, and begins full.
//
// factor is above 0, at most MaxFactor; d at most the Info.MaxTTL of the store. The key and the factor have about 110
// bytes together, where a byte that is no letter or digit may count three. Else it is ErrInvalid. A store has at most
// 1,024 overrides, etcd 256, files 64; one more is ErrUnsupported. So is every override on a store that lacks one of the claims
// shared, per-hold-ttl and list: memcached and ZooKeeper.
//
// An override is a hold that nobody renews. After ErrUnavailable or ErrUnknownOutcome call it again. It costs three
// requests.
func (c *Client) Override(ctx context.Context, key string, factor float64, d time.Duration) error {
	err := c.override(ctx, key, factor, d)
	if err != nil {
		return c.fail("override", key, err)
	}
	return nil
}

func (c *Client) override(ctx context.Context, key string, factor float64, d time.Duration) error {
	switch _, err := c.openKey(key); {
	case err != nil:
		return err
	case !(factor > 0 && factor <= MaxFactor):
		return fmt.Errorf("%w: factor %v: want above 0, at most %d", ErrInvalid, factor, MaxFactor)
	case d <= 0 || c.info.MaxTTL > 0 && d > c.info.MaxTTL:
		return fmt.Errorf("%w: an override of %v: want above 0, at most %v", ErrInvalid, d, c.info.MaxTTL)
	}
	id := formatOverride(key, factor)
	if driver.CheckID(id) != nil {
		return fmt.Errorf("%w: the key is too long for an override: with the factor it has %d bytes, want at most %d", ErrInvalid, len(id), driver.MaxID)
	}
	if err := c.endOverride(ctx, key); err != nil && !errors.Is(err, ErrNotHeld) {
		return err
	}
	r := driver.Request{ID: id, TTL: roundTTL(d, c.info), Whole: true, Share: driver.Share{Mode: driver.Read}}
	if _, err := c.store.shared.TryLock(ctx, c.overridesKey(), r); err != nil {
		return errs.OfStore(ctx, err, true)
	}
	return nil
}

// EndOverride ends the override of key. ErrNotHeld if there is none.
func (c *Client) EndOverride(ctx context.Context, key string) error {
	_, err := c.openKey(key)
	if err == nil {
		err = c.endOverride(ctx, key)
	}
	if err != nil {
		return c.fail("override", key, err)
	}
	return nil
}

func (c *Client) endOverride(ctx context.Context, key string) error {
	holders, err := c.overrideHolds(ctx)
	if err != nil {
		return err
	}
	found := error(ErrNotHeld)
	for _, h := range holders {
		if o, ok := parseOverride(h.ID); !ok || o.Key != key {
			continue
		}
		if err := c.store.shared.Unlock(ctx, c.overridesKey(), h.ID); err != nil && !errors.Is(err, ErrNotHeld) {
			return errs.OfStore(ctx, err, true)
		}
		found = nil
	}
	return found
}

// Overrides gives the overrides of all keys, sorted by key. A client that is made [WithOverrides] applies them from now on.
func (c *Client) Overrides(ctx context.Context) ([]Override, error) {
	began := c.clock.Now()
	holders, err := c.overrideHolds(ctx)
	if err != nil {
		return nil, c.fail("overrides", "", err)
	}
	byKey := map[string]Override{}
	for _, h := range holders { // the last one of a key counts
		if o, ok := parseOverride(h.ID); ok {
			o.Left = h.TTL
			byKey[o.Key] = o
		}
	}
	c.overrides.learn(byKey, began)
	list := make([]Override, 0, len(byKey))
	for _, o := range byKey {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b Override) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// overrideHolds reads them, in the order of their grants.
func (c *Client) overrideHolds(ctx context.Context) ([]Holder, error) {
	if c.state.Load() == stateClosed {
		return nil, ErrClosed
	}
	if err := c.mayOverride(); err != nil {
		return nil, err
	}
	holders, err := c.store.shared.Holders(ctx, c.overridesKey())
	if err != nil {
		return nil, errs.OfStore(ctx, err, false)
	}
	holders = slices.DeleteFunc(holders, func(h Holder) bool { return h.Released })
	slices.SortFunc(holders, func(a, b Holder) int { return cmp.Compare(a.Token, b.Token) })
	return holders, nil
}

// mayOverride refuses a store that cannot keep overrides, or not for as long as they last, or cannot show them.
func (c *Client) mayOverride() error {
	if missing := c.store.claims.Missing(driver.Shared, driver.PerHoldTTL, driver.List); len(missing) > 0 {
		return fmt.Errorf("%w: overrides on %s, which does not claim %s", ErrUnsupported, c.info.Name, claimList(missing))
	}
	return nil
}

// overridesKey is the key that all overrides share.
func (c *Client) overridesKey() string { return c.prefix + "\x00o" }

// formatOverride is the id of the hold that an override is.
func formatOverride(key string, factor float64) string {
	return strconv.FormatFloat(factor, 'g', -1, 64) + "*" + url.PathEscape(key)
}

func parseOverride(id string) (o Override, ok bool) {
	factor, escaped, ok := strings.Cut(id, "*")
	var err, failed error
	o.Factor, err = strconv.ParseFloat(factor, 64)
	o.Key, failed = url.PathUnescape(escaped)
	return o, ok && err == nil && failed == nil && o.Factor > 0 && o.Factor <= MaxFactor
}

// overrides are those that a client applies. A nil one has none.
type overrides struct {
	c       *Client
	active  atomic.Pointer[map[string]activeOverride]
	next    atomic.Int64 // nanoseconds on the client's clock: when to read again
	ctx     context.Context
	stop    context.CancelFunc
	mu      sync.Mutex // guards reading.Add against stop
	reading sync.WaitGroup
}

type activeOverride struct {
	Override
	ends clock.Instant
}

const (
	// overridesFor is how long overrides are applied without being read again.
	overridesFor = time.Second
	// overridesBound bounds the request that reads them.
	overridesBound = 5 * time.Second
)

func newOverrides(c *Client) *overrides {
	o := &overrides{c: c}
	o.ctx, o.stop = context.WithCancel(context.Background())
	return o
}

// of is limit, or what an override of key makes of it.
func (o *overrides) of(key string, limit Limit) Limit {
	if o == nil {
		return limit
	}
	now := o.c.clock.Now()
	if due := o.next.Load(); int64(now.Mono) >= due && o.next.CompareAndSwap(due, int64(now.Mono+overridesFor)) {
		o.readBeside()
	}
	if active := o.active.Load(); active != nil {
		if a, ok := (*active)[key]; ok && !a.ends.Reached(now) {
			return a.Of(limit)
		}
	}
	return limit
}

// readBeside reads the overrides in the background.
func (o *overrides) readBeside() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ctx.Err() != nil {
		return
	}
	o.reading.Go(func() {
		ctx, cancel := context.WithTimeout(o.ctx, overridesBound)
		defer cancel()
		_, _ = o.c.Overrides(ctx) // a decision that could use them tells that the store does not answer
	})
}

// learn takes in the overrides that were asked for at that time.
func (o *overrides) learn(byKey map[string]Override, asked clock.Instant) {
	if o == nil {
		return
	}
	active := make(map[string]activeOverride, len(byKey))
	for key, of := range byKey {
		active[key] = activeOverride{of, asked.Add(of.Left)}
	}
	o.active.Store(&active)
}

// close ends what reads them.
func (o *overrides) close() {
	if o == nil {
		return
	}
	o.mu.Lock()
	o.stop()
	o.mu.Unlock()
}

// wait returns when nothing reads them any more.
func (o *overrides) wait() {
	if o != nil {
		o.reading.Wait()
	}
}
