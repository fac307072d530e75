package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/driver/optimistic"
)

// limitKind is the kind of the cells of limits.
const limitKind = "limit"

// maxStates is how many states a client remembers beside those in use. Beyond it a decision may cost a second statement.
const maxStates = 16_384

// update implements optimistic.Update: one statement swaps the state that this client saw last, if the server still has it,
// and otherwise reads it. Calls of one client on one state wait for each other here, and not at the server.
func (b *backend) update(ctx context.Context, key string, c optimistic.Change) error {
	return b.states.Do(ctx, &decision{b: b}, stateName(key, c.Limit), c)
}

// TakeAll implements driver.Limiter.
func (b *backend) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	names := make([]string, len(demands))
	for i, d := range demands {
		if err := limits.Check(d.Limit, driver.Ask{Min: d.N, N: d.N}); err != nil {
			return nil, err
		}
		names[i] = stateName(d.Key, d.Limit)
	}
	return b.states.TakeAll(ctx, &decision{b: b, several: len(demands) > 1}, names, demands)
}

// stateName is the name of a state in the table of the client: limits.Name, which has no slash, and the key.
func stateName(key string, l driver.Limit) string { return limits.Name(l) + "/" + key }

// decision is the work on one decision. It implements optimistic.Store.
type decision struct {
	b       *backend
	several bool
	read    time.Time // the server's clock when the states were read
}

// Now is the server's clock when the states were read. Before that it is between when a request that is sent now is sent and,
// most often, when it arrives.
func (d *decision) Now() int64 {
	if !d.read.IsZero() {
		return d.read.UnixMicro()
	}
	now, _ := d.b.clock.now()
	return now.UnixMicro()
}

// Trust reports whether to try what this client knows. A state of which it knows nothing is taken for none, unless there are
// several: their swap, when refused, does not read them.
func (d *decision) Trust(c *optimistic.Cell[int64]) bool {
	_, known := d.b.clock.now()
	return known && (c.Known || !d.several)
}

// Look resets a state that the server's clock has made before it was set back, when all that was granted would be back.
func (d *decision) Look(c *optimistic.Cell[int64], l driver.Limit, now int64) {
	d.b.ahead.Look(&c.State, c.Name, uint64(c.Version), l, now)
}

// Load reads the states.
func (d *decision) Load(ctx context.Context, states []*optimistic.Cell[int64], _ bool) error {
	if len(states) == 0 { // the clock became known meanwhile
		return nil
	}
	read, now, err := d.b.load(ctx, limitCells(states))
	if err != nil {
		return err
	}
	d.read = now
	return saw(states, read)
}

// saw tells the states what the server has.
func saw(states []*optimistic.Cell[int64], read []cell) error {
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

// tooLate is by how much the server's clock may be ahead of a decision by the estimate when it is written. It bounds by how
// much a permit can count too early where this machine has slept and its clocks do not show it. A slower request is decided
// again, by the clock that was read, and is then never too late: that was read in this call.
const tooLate = time.Second / 4

// Swap writes the states if the server's clock has reached the time of the decision, and is not far ahead of it. So a permit counts from between the request and its answer, and the time of a state never goes
// back.
func (d *decision) Swap(ctx context.Context, states []*optimistic.Cell[int64], now int64) (bool, error) {
	cells := limitCells(states)
	for i, s := range states {
		if cells[i].same = !s.Changed; !s.Changed {
			continue
		}
		value, err := s.State.AppendBinary(nil)
		if err != nil {
			return false, err
		}
		cells[i].value, cells[i].keep = value, s.Keep
	}
	at := span{pgtype.Timestamptz{Time: time.UnixMicro(now), Valid: true}, anyTime.to}
	if d.read.IsZero() {
		at.to = pgtype.Timestamptz{Time: time.UnixMicro(now).Add(tooLate), Valid: true}
	}
	r, err := d.b.swap(ctx, cells, at)
	switch {
	case err != nil:
		return false, err
	case r.swapped:
		for i, s := range states {
			s.Version = r.cells[i].version
		}
		return true, nil
	case r.cells == nil:
		return false, d.Load(ctx, states, true)
	}
	d.read = r.now
	return false, saw(states, r.cells)
}

func limitCells(states []*optimistic.Cell[int64]) []cell {
	cells := make([]cell, len(states))
	for i, s := range states {
		name, key, _ := strings.Cut(s.Name, "/")
		cells[i] = cell{kind: limitKind, key: key, name: name}
		if s.Known {
			cells[i].version = s.Version
		}
	}
	return cells
}
