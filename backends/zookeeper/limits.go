package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

var (
	_ driver.Limiter      = (*backend)(nil)
	_ driver.OneTaker     = (*backend)(nil)
	_ driver.Refunder     = (*backend)(nil)
	_ driver.MultiLimiter = (*backend)(nil)
)

// Take implements driver.Limiter.
func (b *backend) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if err := limits.CheckEach(l, asks); err != nil {
		return driver.Taken{}, err
	}
	var taken driver.Taken
	err := b.update(ctx, key, l, func(s *limits.State, now int64) (dirty bool) {
		taken, dirty = s.TakeEach(l, now, asks)
		return dirty
	})
	if err != nil {
		return driver.Taken{}, err
	}
	return taken, nil
}

// TakeOne implements driver.OneTaker.
func (b *backend) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	if err := limits.Check(l, a); err != nil {
		return driver.TakenOne{}, err
	}
	var one driver.TakenOne
	err := b.update(ctx, key, l, func(s *limits.State, now int64) (dirty bool) {
		one, dirty = s.Take(l, now, a)
		return dirty
	})
	if err != nil {
		return driver.TakenOne{}, err
	}
	return one, nil
}

// Refund implements driver.Refunder.
func (b *backend) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	if id == "" || n <= 0 {
		return nil
	}
	return b.update(ctx, key, l, func(s *limits.State, now int64) bool { return s.Refund(l, now, id, n) })
}

// Reset implements driver.Limiter. The node stays, with a fresh state, until it is collected.
func (b *backend) Reset(ctx context.Context, key string, l driver.Limit) error {
	return b.update(ctx, key, l, func(s *limits.State, now int64) bool {
		one, _ := s.Take(l, now, driver.Ask{})
		if one.ResetAfter == 0 {
			return false
		}
		*s = limits.State{}
		return true
	})
}

// calibrate asks for the leader's time if ours may be wrong.
func (b *backend) calibrate(ctx context.Context) error {
	if !b.clock.jumped() {
		return nil
	}
	return b.askTime(ctx)
}

// askTime writes nothing to a node of our own, and learns when.
func (b *backend) askTime(ctx context.Context) error {
	sent := time.Now()
	stat, err := call(ctx, b, func() (*zk.Stat, error) { return b.conn.Set(b.root+"/limits", []byte{}, -1) }, nil)
	if err == nil {
		b.clock.learn(sent, time.Now(), stat.Mtime)
	}
	return err
}

// TakeAll implements driver.MultiLimiter: all demands or none. If one is denied, each
// answer says how that demand stands by itself, and all grants are 0.
func (b *backend) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	m := &multi{b: b, demands: demands, of: make([]*cell, len(demands))}
	for i, d := range demands {
		if err := limits.Check(d.Limit, driver.Ask{Min: d.N, N: d.N}); err != nil {
			return nil, err
		}
		if err := checkHold(d.Key, "limit"); err != nil {
			return nil, err
		}
		c := b.cells.enter(b.limitPath(d.Key, d.Limit))
		defer b.cells.leave(c)
		m.of[i] = c
		if !slices.Contains(m.cells, c) {
			m.cells = append(m.cells, c)
		}
	}
	// Turns are taken in one order by all.
	slices.SortFunc(m.cells, func(a, b *cell) int { return strings.Compare(a.path, b.path) })
	if _, err := b.await(ctx); err != nil {
		return nil, err
	}
	if err := b.calibrate(ctx); err != nil {
		return nil, err
	}
	for _, c := range m.cells {
		if err := b.takeTurn(ctx, c); err != nil {
			return nil, err
		}
		defer func() { <-c.turn }()
	}
	b.collects()
	return m.run(ctx)
}

// multi is one TakeAll. It has the turns of its cells.
type multi struct {
	b       *backend
	demands []driver.Demand
	of      []*cell // of each demand
	cells   []*cell // each once
}

func (m *multi) run(ctx context.Context) ([]driver.Taken, error) {
	for conflicts := 0; ; conflicts++ {
		for _, c := range m.cells {
			dir, node := c.path, c.node
			if err := c.saw(call(ctx, m.b, func() (answer, error) { return m.b.look(dir, node) }, nil)); err != nil {
				return nil, err
			}
		}
		out, next, err := m.decide(m.b.clock.now())
		if err != nil || next == nil {
			return out, err
		}
		err = m.write(ctx, next)
		if err == nil {
			return out, nil
		}
		if !errors.Is(err, errConflict) {
			return nil, err
		}
		if !m.b.pause(ctx, m.b.cells.backoff(conflicts)) {
			if m.b.isClosed() {
				return nil, driver.ErrClosed
			}
			return nil, fmt.Errorf("%w: other writers came first: %w", driver.ErrNotSent, ctx.Err())
		}
	}
}

// decide gives the answers, and what is to be stored; nil if nothing is.
func (m *multi) decide(now int64) ([]driver.Taken, map[*cell]record, error) {
	out := make([]driver.Taken, len(m.demands))
	next := make(map[*cell]record)
	for _, c := range m.cells {
		next[c] = c.record
	}
	denied, dirty := false, false
	for i, d := range m.demands {
		r, changed, err := decide(next[m.of[i]], now, &change{l: d.Limit, fn: func(s *limits.State, now int64) (dirty bool) {
			out[i], dirty = takenBy(s, d, now)
			return dirty
		}})
		if err != nil {
			return nil, nil, fmt.Errorf("node %s: %w", m.of[i].path, err)
		}
		if changed {
			next[m.of[i]], dirty = r, true
		}
		denied = denied || d.N > 0 && out[i].Asks[0].N == 0
	}
	if !denied && dirty {
		return out, next, nil
	}
	if !denied {
		return out, nil, nil
	}
	for i, d := range m.demands { // as they stand, nothing being taken
		_, _, err := decide(m.of[i].record, now, &change{l: d.Limit, fn: func(s *limits.State, now int64) bool {
			granted := out[i].Asks[0]
			out[i], _ = takenBy(s, driver.Demand{Limit: d.Limit}, now)
			granted.N, granted.Delay, granted.ValidFor = 0, 0, 0
			out[i].Asks[0] = granted
			return false
		}})
		if err != nil {
			return nil, nil, err
		}
	}
	return out, nil, nil
}

func takenBy(s *limits.State, d driver.Demand, now int64) (driver.Taken, bool) {
	one, dirty := s.Take(d.Limit, now, driver.Ask{Min: d.N, N: d.N})
	return driver.Taken{Asks: []driver.Granted{one.Granted}, Remaining: one.Remaining, ResetAfter: one.ResetAfter}, dirty
}

// write stores all in one transaction.
func (m *multi) write(ctx context.Context, next map[*cell]record) error {
	var ops []any
	var dirs []string // of limits to be made
	made := make(map[*cell]string)
	for _, c := range m.cells {
		if r := next[c]; c.node == "" && len(r.state) == 0 {
			continue // nothing is taken of it
		} else if c.node != "" {
			ops = append(ops, &zk.SetDataRequest{Path: c.node, Data: r.bytes(), Version: c.version})
		} else {
			made[c] = newIncarnation(c.path)
			ops = append(ops, m.b.limitOps(c.path, made[c], r.bytes())...)
			dirs = append(dirs, path.Dir(c.path))
		}
	}
	// What is sent may outlast the turns: it does not look at the cells.
	_, err := call(ctx, m.b, func() ([]zk.MultiResponse, error) {
		for _, dir := range dirs {
			if err := m.b.makePath(dir); err != nil {
				return nil, notMade(err)
			}
		}
		return m.b.conn.Multi(ops...)
	}, nil)
	for _, c := range m.cells {
		c.known = false
	}
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
		return errConflict
	}
	if err == nil {
		for c, node := range made {
			c.node = node
		}
	}
	return err
}
