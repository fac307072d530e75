package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/driver/optimistic"
)

// limitKind is the kind of the cells of limits.
const limitKind = "limit"

// update implements optimistic.Update: a statement reads the state and the clock, another one swaps the state if it has
// changed. Calls of one client on one state wait for each other here, and not at the server.
func (b *backend) update(ctx context.Context, key string, c optimistic.Change) error {
	return b.states.Do(ctx, &decision{b: b}, stateName(key, c.Limit), c)
}

// TakeAll implements driver.MultiLimiter.
func (b *backend) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	names := make([]string, len(demands))
	for i, d := range demands {
		if err := limits.Check(d.Limit, driver.Ask{Min: d.N, N: d.N}); err != nil {
			return nil, err
		}
		names[i] = stateName(d.Key, d.Limit)
	}
	return b.states.TakeAll(ctx, &decision{b: b}, names, demands)
}

// stateName is the name of a state in the table of the client: limits.Name, which has no slash, and the key.
func stateName(key string, l driver.Limit) string { return limits.Name(l) + "/" + key }

// decision is the work on one decision. It implements optimistic.Store.
type decision struct {
	b   *backend
	now time.Time // the server's clock when the states were read
}

// Now is the server's clock.
func (d *decision) Now() int64 { return d.now.UnixMicro() }

// Trust always reads.
func (d *decision) Trust(*optimistic.Cell[int64]) bool { return false }

// Look does nothing: there is one clock.
func (d *decision) Look(*optimistic.Cell[int64], driver.Limit, int64) {}

// Load reads the states.
func (d *decision) Load(ctx context.Context, states []*optimistic.Cell[int64], _ bool) error {
	read, now, err := d.b.load(ctx, limitCells(states))
	if err != nil {
		return err
	}
	d.now = now
	for i, c := range read {
		var s limits.State
		if c.value != nil {
			if err := s.UnmarshalBinary(c.value); err != nil {
				return err
			}
		}
		states[i].Saw(c.version, s)
	}
	return nil
}

// Swap writes the states.
func (d *decision) Swap(ctx context.Context, states []*optimistic.Cell[int64], _ int64) (bool, error) {
	var changed []*optimistic.Cell[int64]
	for _, s := range states {
		if s.Changed {
			changed = append(changed, s)
		}
	}
	cells := limitCells(changed)
	for i, s := range changed {
		value, err := s.State.AppendBinary(nil)
		if err != nil {
			return false, err
		}
		cells[i].value, cells[i].keep = value, s.Keep
	}
	versions, swapped, err := d.b.swap(ctx, cells, func() {})
	if swapped {
		for i, s := range changed {
			s.Version = versions[i]
		}
	}
	return swapped, err
}

func limitCells(states []*optimistic.Cell[int64]) []cell {
	cells := make([]cell, len(states))
	for i, s := range states {
		name, key, _ := strings.Cut(s.Name, "/")
		cells[i] = cell{kind: limitKind, key: key, name: name, version: s.Version}
	}
	return cells
}
