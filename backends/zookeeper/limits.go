package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/driver/optimistic"
)

// maxStates is how many states a client remembers beside those in use. Beyond it a decision may cost a read more.
const maxStates = 16_384

// update implements optimistic.Update.
//
// What was read or written last is tried at once, and found out of date by its version: a decision costs one round
// trip while no other client decides on the key.
func (b *backend) update(ctx context.Context, key string, c optimistic.Change) error {
	if err := checkHold(key, "limit"); err != nil {
		return err
	}
	s, err := b.beginLimit(ctx)
	if err != nil {
		return err
	}
	return b.states.Do(ctx, s, b.limitPath(key, c.Limit), c)
}

// beginLimit waits for a session, and for the leader's time if it is not known.
func (b *backend) beginLimit(ctx context.Context) (nodeStore, error) {
	if _, err := b.await(ctx); err != nil {
		return nodeStore{}, err
	}
	now, err := b.leaderTime(ctx)
	if err != nil {
		return nodeStore{}, err
	}
	b.collects()
	return nodeStore{b, now, time.Now()}, nil
}

// leaderTime gives the leader's time, as its answers to writes show it. It asks for it if it is not known.
func (b *backend) leaderTime(ctx context.Context) (time.Time, error) {
	for {
		if now, known := b.clock.Now(); known {
			return now, nil
		}
		if err := b.askTime(ctx); err != nil {
			return time.Time{}, err
		}
	}
}

// learn takes in the answer to a write.
func (b *backend) learn(sent, came time.Time, stat *zk.Stat) {
	b.clock.Learn(sent, came, time.UnixMilli(stat.Mtime), time.Millisecond)
}

// askTime writes nothing to a node of our own, and learns when.
func (b *backend) askTime(ctx context.Context) error {
	sent := time.Now()
	stat, err := call(ctx, b, func() (*zk.Stat, error) {
		dir := b.root + "/limits"
		stat, err := b.conn.Set(dir, []byte{}, -1)
		if !errors.Is(err, zk.ErrNoNode) {
			return stat, err
		}
		if err := b.makeDir(dir); err != nil { // somebody has removed it
			return nil, driver.NotSent(err)
		}
		return b.conn.Set(dir, []byte{}, -1)
	}, nil)
	if err == nil {
		b.learn(sent, time.Now(), stat)
	}
	return err
}

// TakeAll implements driver.Limiter, by one transaction as a rule.
func (b *backend) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	names := make([]string, len(demands))
	for i, d := range demands {
		if err := limits.Check(d.Limit, driver.Ask{Min: d.N, N: d.N}); err != nil {
			return nil, err
		}
		if err := checkHold(d.Key, "limit"); err != nil {
			return nil, err
		}
		names[i] = b.limitPath(d.Key, d.Limit)
	}
	s, err := b.beginLimit(ctx)
	if err != nil {
		return nil, err
	}
	return b.states.TakeAll(ctx, s, names, demands)
}

// cell is what this client knows of a limit; its name is the path of the limit's node.
type cell = optimistic.Cell[incarnation]

// incarnation is the node that has the state of a limit, as last seen.
type incarnation struct {
	asked   bool   // a request of this client has looked for it or made it
	path    string // as last seen; "" if there was none
	version int32
	until   int64 // of the record
}

// nodeStore implements optimistic.Store for one call.
type nodeStore struct {
	b     *backend
	began time.Time // the call, by the leader's clock
	at    time.Time // then, by our own
}

// Now is the leader's time.
func (s nodeStore) Now() int64 { return s.began.Add(time.Since(s.at)).UnixMicro() }

// Look ends a state that stands still when it may, as after the leader's clock was ahead.
func (s nodeStore) Look(c *cell, l driver.Limit, now int64) {
	v := &c.Version
	ahead, _ := s.b.ahead.Look(&c.State, v.path, uint64(v.version), l, now)
	if ahead > 0 && c.State.Expiry(l, now) == 0 {
		v.until = 0 // by that clock, too
	}
}

// Trust reads a limit first that others decide on too, and one that was not there. A limit that this client meets for
// the first time is made at once if the one that it met before was new.
func (s nodeStore) Trust(c *cell) bool {
	if !c.Version.asked {
		return s.b.lastWasNew.Load()
	}
	return c.Known && c.Version.path != "" && !c.Contended
}

// Load implements optimistic.Store. A follower may show what is old: if that matters, it is made to catch up.
func (s nodeStore) Load(ctx context.Context, cells []*cell, latest bool) error {
	alone := s.b.alone.Load()
	catchUp := latest && !alone
	for _, c := range cells {
		dir, last := c.Name, c.Version.path
		a, err := call(ctx, s.b, func() (answer, error) {
			if catchUp {
				if _, err := s.b.conn.Sync(dir); err != nil {
					return answer{}, err
				}
			}
			return s.b.look(dir, last)
		}, nil)
		first := !c.Version.asked
		if err := saw(c, a, err); err != nil {
			return err
		}
		if first {
			s.b.lastWasNew.Store(c.Version.path == "")
		}
		c.Fresh = latest || alone
		catchUp = false // with what others have, too
	}
	return nil
}

// saw takes in what a server said of a limit.
func saw(c *cell, a answer, err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		c.Saw(incarnation{asked: true}, limits.State{})
		return nil
	}
	if err != nil {
		return err
	}
	until, state, err := parseRecord(a.data)
	if err != nil {
		return fmt.Errorf("node %s: %w", a.node, err)
	}
	c.Saw(incarnation{asked: true, path: a.node, version: a.stat.Version, until: until}, state)
	return nil
}

// Swap implements optimistic.Store, by one request unless a directory has to be made.
func (s nodeStore) Swap(ctx context.Context, cells []*cell, now int64) (swapped bool, err error) {
	var ops []any
	var dirs []string                       // of limits to be made
	next := make([]incarnation, len(cells)) // what becomes of each cell
	places := make([]int, len(cells))       // where in ops
	guessed := slices.ContainsFunc(cells, func(c *cell) bool { return !c.Version.asked })
	for _, c := range cells {
		c.Version.asked = true
	}
	for i, c := range cells {
		n := &next[i]
		*n, places[i] = c.Version, len(ops)
		if !c.Changed {
			if !c.Known {
				return false, nil // no write would show that it is new
			}
			if n.path != "" {
				ops = append(ops, &zk.CheckVersionRequest{Path: n.path, Version: n.version})
			}
			continue
		}
		// Never sooner than before: no client that has read it is surprised.
		n.until = max(n.until, now+c.Keep.Microseconds())
		data, err := c.State.AppendBinary(recordUntil(n.until))
		if err != nil {
			return false, err
		}
		if n.path != "" {
			ops = append(ops, &zk.SetDataRequest{Path: n.path, Data: data, Version: n.version})
		} else {
			n.path = newIncarnation(c.Name)
			ops = append(ops, s.b.limitOps(c.Name, n.path, data)...)
			dirs = append(dirs, path.Dir(c.Name))
		}
	}
	sent := time.Now()
	done, err := call(ctx, s.b, func() ([]zk.MultiResponse, error) { return s.b.write(ops, dirs) }, nil)
	if guessed && (err == nil || isConflict(err)) {
		s.b.lastWasNew.Store(err == nil)
	}
	switch {
	case isConflict(err), guessed && errors.Is(err, zk.ErrNoAuth): // the limit may be there, to be written to
		return false, nil
	case err != nil:
		return false, err
	}
	came := time.Now()
	for i, c := range cells {
		c.Version = next[i]
		if !c.Changed {
			continue
		}
		if stat := done[places[i]].Stat; stat != nil { // one that was made is version 0
			c.Version.version = stat.Version
			s.b.learn(sent, came, stat)
		}
	}
	return true, nil
}

// isConflict reports that another client's write came first.
func isConflict(err error) bool {
	return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode)
}

// write makes ops in one step, and where need be the directories of limits that are to be made.
func (b *backend) write(ops []any, dirs []string) ([]zk.MultiResponse, error) {
	if set, ok := ops[0].(*zk.SetDataRequest); ok && len(ops) == 1 {
		stat, err := b.conn.Set(set.Path, set.Data, set.Version)
		return []zk.MultiResponse{{Stat: stat}}, err
	}
	done, err := b.conn.Multi(ops...)
	if !errors.Is(err, zk.ErrNoNode) || len(dirs) == 0 {
		return done, err
	}
	for _, dir := range dirs {
		if err := b.makeDir(dir); err != nil {
			return nil, driver.NotSent(err)
		}
	}
	return b.conn.Multi(ops...)
}

// limitOps are the parts of a transaction that make a limit.
func (b *backend) limitOps(dir, node string, data []byte) []any {
	return []any{
		&zk.CreateRequest{Path: dir, Data: []byte{}, Acl: b.acl},
		&zk.CreateRequest{Path: node, Data: data, Acl: b.acl},
	}
}
