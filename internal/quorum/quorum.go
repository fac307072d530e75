// Package quorum makes one store for locks of several independent ones: what more than half of them grant is held.
//
// A member keeps each lease by itself and knows nothing of the others. So every promise is made of majorities, of which
// any two have a member in common: that one refuses a second holder, and has the greatest token.
package quorum

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// MaxTTL is the longest lease. It is no option: what a client takes for over, because it is longer than its own bound,
// must be over for the lease of every client. Tokens that a member has forgotten are below those of its clock by then.
const MaxTTL = 4 * driver.FloorRange

// Backend is the store that the members make. Use New.
type Backend struct {
	driver.Unimplemented

	members []*member
	need    int // more than half
	info    driver.Info
	longest time.Duration // MaxTTL
	holds   holds
	tokens  clock

	mu     sync.RWMutex
	closed bool
	calls  sync.WaitGroup
}

var _ driver.Backend = (*Backend)(nil)

// New makes a store of three or more members, which it closes with itself. Every client has to name the same ones, in
// any order. A store that cannot be a member is ErrInvalid, and no member is closed then. longest is MaxTTL, and
// less only for tests that restart members.
func New(longest time.Duration, members ...driver.Backend) (*Backend, error) {
	if len(members) < 3 {
		return nil, fmt.Errorf("%w: a quorum of %d members: want 3 or more, of which one may fail", driver.ErrInvalid, len(members))
	}
	b := &Backend{need: len(members)/2 + 1, longest: longest}
	for i, m := range members {
		if m == nil {
			return nil, fmt.Errorf("%w: member %d is nil", driver.ErrInvalid, i+1)
		}
		if reflect.ValueOf(m).Comparable() && slices.Contains(members[:i], m) {
			return nil, fmt.Errorf("%w: member %d is there twice", driver.ErrInvalid, i+1)
		}
		open, err := opener(m)
		if err != nil {
			return nil, fmt.Errorf("%w: member %d, %s: %s", driver.ErrInvalid, i+1, m.Info().Name, err)
		}
		b.members = append(b.members, &member{
			Backend: m, open: open, name: fmt.Sprintf("member %d, %s", i+1, m.Info().Name), last: make(map[holdKey]chan struct{}),
		})
	}
	b.info = b.describe()
	return b, nil
}

// opener gives what opens m, or says why it cannot be a member.
func opener(m driver.Backend) (func(context.Context) (driver.Backend, error), error) {
	if a, ok := m.(*absent); ok {
		return a.get, nil
	}
	return func(context.Context) (driver.Backend, error) { return m, nil }, usable(m)
}

// usable says why m cannot be a member.
func usable(m driver.Backend) error {
	info := m.Info()
	switch {
	case info.Name == "etcd" || info.Name == "zookeeper":
		return errors.New("it is a quorum by itself: use it alone")
	case info.Name == "memcached":
		return errors.New("it has no clock by which locks could be counted after it has forgotten them")
	case !info.Claims.Has(driver.Vote):
		return fmt.Errorf("it does not claim %s: want a single server of Redis whose user may run INFO, or a store of files or memory", driver.Vote)
	case info.MaxTTL != 0 && info.MaxTTL < MaxTTL:
		return fmt.Errorf("leases of at most %v: want %v", info.MaxTTL, MaxTTL)
	}
	return nil
}

// Info describes the store.
func (b *Backend) Info() driver.Info {
	info := b.info
	info.Claims = slices.Clone(info.Claims)
	return info
}

// describe makes Info of the members'. Locks are what all members can do, and survive the failure of one.
func (b *Backend) describe() driver.Info {
	info := driver.Info{Name: "quorum", MaxTTL: b.longest}
	common := slices.Clone(lasting)
	for _, m := range b.members {
		one := m.Info()
		info.MinTTL, info.TTLStep = max(info.MinTTL, one.MinTTL), max(info.TTLStep, one.TTLStep)
		if one.MaxKey != 0 && (info.MaxKey == 0 || one.MaxKey < info.MaxKey) {
			info.MaxKey = one.MaxKey
		}
		if info.Server != "" {
			info.Server += ", "
		}
		info.Server += one.Server
		common = slices.DeleteFunc(common, func(c driver.Claim) bool { return !one.Claims.Has(c) })
	}
	info.Claims = append(common, driver.DurableFailover, driver.TokenFailover, b.scope())
	return info
}

// lasting are the claims that a quorum makes if all members do.
var lasting = driver.Claims{
	driver.PerHoldTTL, driver.Inspect, driver.Break, driver.List, driver.MinHoldAfterExit,
	driver.TokenProcess, driver.TokenRestart, driver.TokenClockSeeded, driver.DurableRestart, driver.NoEviction,
}

// scope is the narrowest of the members'.
func (b *Backend) scope() driver.Claim {
	for _, c := range []driver.Claim{driver.ScopeProcess, driver.ScopeMachine} {
		if slices.ContainsFunc(b.members, func(m *member) bool { return m.Info().Claims.Has(c) }) {
			return c
		}
	}
	return driver.ScopeHosts
}

// start runs fn in the background, until Close at most. It reports false after Close.
func (b *Backend) start(fn func()) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return false
	}
	b.calls.Go(fn)
	return true
}

// Close closes the members, which ends the calls under way, and waits for these. They get a second before: a release that
// a majority has made may not have reached the others yet.
func (b *Backend) Close() error {
	b.mu.Lock()
	again := b.closed
	b.closed = true
	b.mu.Unlock()
	if again {
		return nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.calls.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(callBound):
	}
	all := make([]error, len(b.members))
	for i, m := range b.members {
		all[i] = m.Close()
	}
	<-ended
	return errors.Join(all...)
}

// ready refuses a call that comes after Close or after the end of ctx.
func (b *Backend) ready(ctx context.Context, key string) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	switch {
	case b.closed:
		return driver.ErrClosed
	case ctx.Err() != nil:
		return driver.NotSent(ctx.Err())
	case key == "":
		return fmt.Errorf("%w: key is empty: want at least 1 byte", driver.ErrInvalid)
	}
	return nil
}

func (b *Backend) check(ctx context.Context, key string, r driver.Request) error {
	if err := b.ready(ctx, key); err != nil {
		return err
	}
	switch {
	case r.Fair, r.Share != driver.Share{}, r.Floor != 0:
		return fmt.Errorf("%w: a quorum has exclusive locks without a queue", driver.ErrUnsupported)
	case r.TTL <= 0 || r.TTL > b.longest:
		return fmt.Errorf("%w: TTL %v: want more than 0, at most %v", driver.ErrInvalid, r.TTL, b.longest)
	}
	return driver.CheckID(r.ID)
}
