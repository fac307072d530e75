package memcached

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/driver/optimistic"
)

// limitName names the state of one limit.
type limitName struct {
	name
	kind  string // limits.Name
	limit driver.Limit
}

func limitOf(key string, l driver.Limit) limitName {
	return limitName{name: nameOf(key), kind: limits.Name(l), limit: l}
}

func (n limitName) storeKey() string { return n.key(n.kind) }

// update implements optimistic.Update: it reads the state, and swaps it if it has changed: two commands, or one. Each
// attempt reads, because a cas id is no use when the server has restarted.
func (b *backend) update(ctx context.Context, key string, c optimistic.Change) error {
	if err := b.calls.Ready(ctx); err != nil {
		return err
	}
	n := limitOf(key, c.Limit)
	d := &decision{visit: visit{b: b, to: n.name}, n: n}
	if b.onMissing == Empty && !c.Peek {
		apply := c.Apply
		c.Apply = func(s *limits.State, now int64) bool { return apply(s, now) || d.missing }
	}
	defer d.end()
	return b.turns.Do(ctx, d, n.storeKey(), c)
}

// cell is the state of a limit, and the item that it was read from; nil if there is none.
type cell = optimistic.Cell[*memcache.Item]

// decision is the work on one decision. It implements optimistic.Store.
type decision struct {
	visit
	n       limitName
	missing bool // there was none, under Empty
}

// Now is this client's clock.
func (d *decision) Now() int64 { return d.b.clock().UnixMicro() }

// Trust always reads.
func (d *decision) Trust(*cell) bool { return false }

// Look warns of a state that is ahead of our clock, and ends one that stands still when it may.
func (d *decision) Look(c *cell, l driver.Limit, now int64) {
	if c.Version == nil {
		return
	}
	if ahead, warn := d.b.ahead.Look(&c.State, c.Name, c.Version.CasID, l, now); warn {
		d.b.log.Warn("memcached: another client's clock is ahead of this one's: its limits deny, or grant too much, until the clocks agree", "ahead", ahead)
	}
}

// Load reads the state.
func (d *decision) Load(ctx context.Context, cells []*cell, _ bool) error {
	item, err := d.read(ctx, d.n.storeKey(), true)
	if err != nil {
		return err
	}
	d.missing = item == nil && d.b.onMissing == Empty
	var s limits.State
	switch {
	case item != nil:
		if s, err = parseLimit(item.Value, d.n); err != nil {
			return err
		}
	case d.missing: // what was lost may have been spent just now
		all := d.n.limit.Max()
		s.Take(d.n.limit, d.Now(), driver.Ask{Min: all, N: all})
	}
	cells[0].Saw(item, s)
	return nil
}

// Swap adds the state or swaps it.
func (d *decision) Swap(ctx context.Context, cells []*cell, now int64) (swapped bool, err error) {
	c := cells[0]
	value, err := formatLimit(d.n, c.State)
	if err != nil {
		return false, err
	}
	keep := c.Keep
	if d.b.onMissing == Empty {
		keep = max(keep, maxRelative*time.Second)
	}
	expiration := lasting(ceilSeconds(keep), time.UnixMicro(now))
	if keep == 0 {
		expiration = atOnce
	}
	return d.write(ctx, d.n.storeKey(), c.Version, value, expiration)
}

const limitHeader = "coord-limit 1"

// formatLimit writes a header that an operator can read, the name if the store key is a hash, and
// the state as package limits packs it.
func formatLimit(n limitName, s limits.State) ([]byte, error) {
	b := append(make([]byte, 0, 512), limitHeader...)
	if n.full != "" {
		b = append(append(b, " key="...), n.full...)
	}
	return s.AppendBinary(append(b, '\n'))
}

var errLimitValue = errors.New("not the state of a limit of this key")

func parseLimit(value []byte, n limitName) (limits.State, error) {
	var s limits.State
	head, packed, ok := bytes.Cut(value, []byte("\n"))
	want := limitHeader
	if n.full != "" {
		want += " key=" + n.full
	}
	if !ok || string(head) != want {
		return s, fmt.Errorf("%w: %s holds %.80q: %w", driver.ErrCorrupt, n.storeKey(), value, errLimitValue)
	}
	if err := s.UnmarshalBinary(packed); err != nil {
		return s, fmt.Errorf("%s: %w", n.storeKey(), err)
	}
	return s, nil
}
