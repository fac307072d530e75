package adapter

import (
	"context"
	"log/slog"
	"time"

	"github.com/coordgo/coord/driver"
	counting "github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/driver/optimistic"
	"github.com/coordgo/coord/internal/repo/docsnippets/adapter/kv"
)

// CountedClaims are what the limits that are remembered promise.
var CountedClaims = driver.Claims{driver.NoEviction, driver.Reserve, driver.ScopeHosts}

// counted has limits alone, of package optimistic: a decision on a state that this client has seen is
// one request.
type counted struct {
	optimistic.Limiter
	v     versions
	table *optimistic.Table[uint64] // of revisions
	ahead counting.Ahead
	now   func() time.Time
}

// state is one of its states.
type state = optimistic.Cell[uint64]

// NewCounted opens the store at addr.
func NewCounted(addr string) driver.Backend { return newCounted(addr) }

func newCounted(addr string) *counted {
	k := &counted{v: versions{newClient(addr)}, table: optimistic.NewTable[uint64](10_000), now: time.Now}
	k.Limiter = optimistic.NewLimiter(func(ctx context.Context, key string, c optimistic.Change) error {
		return k.table.Do(ctx, k, counting.Name(c.Limit)+"/"+key, c)
	})
	return k
}

// Info describes the store.
func (k *counted) Info() driver.Info { return driver.Info{Name: "kv-counted", Claims: CountedClaims} }

// Close ends calls under way.
func (k *counted) Close() error { return k.v.Close() }

// Now is this client's clock: the server tells its own only to those who read.
func (k *counted) Now() int64 { return k.now().UnixMicro() }

// Look finds states that a wrong clock has made.
func (k *counted) Look(s *state, l driver.Limit, now int64) {
	if ahead, warn := k.ahead.Look(&s.State, s.Name, s.Version, l, now); warn {
		slog.Warn("another client's clock is ahead of this one's", "ahead", ahead)
	}
}

// Trust begins with a read where nothing is known.
func (k *counted) Trust(s *state) bool { return s.Known }

// Load reads states.
func (k *counted) Load(ctx context.Context, states []*state, _ bool) error {
	for _, s := range states {
		r, err := k.v.get(ctx, s.Name)
		if err != nil {
			return err
		}
		var read counting.State
		if r.Revision != 0 {
			if err := read.UnmarshalBinary(r.Value); err != nil {
				return err
			}
		}
		s.Saw(r.Revision, read)
	}
	return nil
}

// Swap writes one state: without TakeAll there are no more.
func (k *counted) Swap(ctx context.Context, states []*state, _ int64) (bool, error) {
	s := states[0]
	ask := kv.Request{Op: "swap", Key: s.Name, Revision: s.Version, TTL: s.Keep}
	if s.Keep > 0 {
		var err error
		if ask.Value, err = s.State.MarshalBinary(); err != nil {
			return false, err
		}
	}
	r, err := k.v.c.call(ctx, ask)
	if r.Swapped {
		s.Version = r.Revision
	}
	return r.Swapped, err
}
