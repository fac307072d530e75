package etcd

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// part is one demand of several that are decided together.
type part struct {
	driver.Demand
	cell *cell
}

// TakeAll implements driver.MultiLimiter: all or none, in one request as a rule. Demands on
// the same limit of a key add up. Up to 100 states take part.
func (b *backend) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	for _, d := range demands {
		if err := checkKey(d.Key); err != nil {
			return nil, err
		}
		if err := limits.Check(d.Limit, driver.Ask{Min: d.N, N: d.N}); err != nil {
			return nil, err
		}
	}
	call, done, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	parts, cells := b.partsOf(demands)
	defer func() {
		for _, c := range cells {
			b.limits.leave(c)
		}
	}()
	if len(cells) > maxOps {
		return nil, fmt.Errorf("%w: %d limits at once: want at most %d", driver.ErrInvalid, len(cells), maxOps)
	}
	for i, c := range cells { // in the order of names, so that two calls never wait for each other
		if err := take(call, c.turn); err != nil {
			for _, c := range cells[:i] {
				<-c.turn
			}
			return nil, err
		}
	}
	defer func() {
		for _, c := range cells {
			<-c.turn
		}
	}()
	return b.takeParts(call, parts, cells)
}

// partsOf finds the cells of demands, each once, ordered by name.
func (b *backend) partsOf(demands []driver.Demand) (parts []part, cells []*cell) {
	byName := make(map[string]*cell)
	for _, d := range demands {
		name := b.names.limit(d.Key, d.Limit)
		c := byName[name]
		if c == nil {
			c = b.limits.enter(name)
			byName[name] = c
			cells = append(cells, c)
		}
		parts = append(parts, part{d, c})
	}
	slices.SortFunc(cells, func(x, y *cell) int { return cmp.Compare(x.name, y.name) })
	return parts, cells
}

// takeParts decides until the decision stands.
func (b *backend) takeParts(ctx context.Context, parts []part, cells []*cell) ([]driver.Taken, error) {
	if len(cells) == 0 {
		return nil, nil
	}
	read := false
	for defeats := 0; ; {
		guess := slices.ContainsFunc(cells, func(c *cell) bool { return !c.known })
		now := b.limits.now().UnixMicro()
		for _, p := range parts {
			b.watchClock(p.cell, p.Limit, now)
		}
		taken, written, err := decide(parts, now)
		if err != nil {
			return nil, err
		}
		if len(written) == 0 {
			if read {
				return taken, nil
			}
			if err := b.load(ctx, cells...); err != nil {
				return nil, err
			}
			read = true
			continue
		}
		swapped, err := b.putAll(ctx, parts, cells, written, now)
		switch {
		case err != nil:
			return nil, err
		case swapped:
			return taken, nil
		}
		if read = cells[0].known; guess { // all of them are known now, or none
			continue
		}
		if err := b.limits.backOff(ctx, defeats); err != nil {
			return nil, err
		}
		defeats++
	}
}

// decide makes every demand on the states as we know them, and takes all back if one is
// denied. written has the cells that changed.
func decide(parts []part, now int64) (taken []driver.Taken, written map[*cell]bool, err error) {
	before := make(map[*cell][]byte)
	for _, p := range parts {
		if before[p.cell] == nil {
			if before[p.cell], err = p.cell.state.AppendBinary(nil); err != nil {
				return nil, nil, err
			}
		}
	}
	taken, written = make([]driver.Taken, len(parts)), make(map[*cell]bool)
	denied := false
	for i, p := range parts {
		one, changed := p.cell.state.Take(p.Limit, now, driver.Ask{Min: p.N, N: p.N})
		taken[i] = takenOf(one)
		if changed {
			written[p.cell] = true
		}
		denied = denied || p.N > 0 && one.N == 0
	}
	if !denied {
		return taken, written, nil
	}
	for c, state := range before {
		if err := c.state.UnmarshalBinary(state); err != nil {
			return nil, nil, err
		}
	}
	for i, p := range parts {
		// Those that were denied keep their answer; the others have what there was.
		if one, _ := p.cell.state.Take(p.Limit, now, driver.Ask{}); taken[i].Asks[0].N > 0 {
			one.Granted = driver.Granted{}
			taken[i] = takenOf(one)
		}
	}
	return taken, nil, nil
}

func takenOf(one driver.TakenOne) driver.Taken {
	return driver.Taken{Asks: []driver.Granted{one.Granted}, Remaining: one.Remaining, ResetAfter: one.ResetAfter}
}

// putAll writes the cells that changed, if none of all has at the store.
func (b *backend) putAll(ctx context.Context, parts []part, cells []*cell, written map[*cell]bool, now int64) (swapped bool, err error) {
	limitOf := make(map[*cell]driver.Limit)
	for _, p := range parts {
		limitOf[p.cell] = p.Limit
	}
	ops := make([]*pb.RequestOp, len(cells))
	for i, c := range cells {
		if ops[i], err = b.putOp(ctx, c, limitOf[c], now); err != nil {
			break
		}
		if !written[c] {
			ops[i] = getOf([]byte(c.name)) // only compared
		}
	}
	if err == nil {
		swapped, err = b.swap(ctx, cells, ops)
		if b.limits.leaseRefused(err) {
			return false, nil
		}
		return swapped, err
	}
	for _, c := range cells {
		c.forget()
	}
	return false, err
}
