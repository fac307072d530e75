package optimistic

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// Store is what a [Table] needs of a store. V is what the store keeps of a state besides, such as its version.
//
// The cells that its methods are given belong to the calling goroutine, until they return.
type Store[V any] interface {
	// Now is the time by which limits are counted, in Unix microseconds.
	Now() int64
	// Trust reports whether a decision may be made on what the cell says, though it was not read during this call.
	// If the store has something else, the write fails, and that is the price. A cell that is not Known says that
	// there is no state.
	Trust(c *Cell[V]) bool
	// Load reads cells, and tells each of them with [Cell.Saw]. If latest is set, the answer must be as new as this
	// call, or have [Cell.Fresh] set if it is so anyway. An error of Load never changed anything.
	Load(ctx context.Context, cells []*Cell[V], latest bool) error
	// Look is called before a decision on the cell under l: where clocks of clients count, [limits.Ahead.Look]
	// belongs here.
	Look(c *Cell[V], l driver.Limit, now int64)
	// Swap writes the cells that have Changed, all or none, if the store still has what every cell says. It then
	// sets their versions. False is definite: something else is there, and nothing was written; cells that were
	// read by the same request are told with [Cell.Saw]. An error follows the rule of package driver.
	Swap(ctx context.Context, cells []*Cell[V], now int64) (swapped bool, err error)
}

// Cell is the state of one limit as this client saw it last.
type Cell[V any] struct {
	// Name is the name of the state at the store.
	Name string
	// Known says that the store had the state, or none, when it was last asked. Otherwise State is zero.
	Known bool
	// Fresh says that what is known was read during this call and no older than it. A Store may clear it after
	// Saw, where reads can be older.
	Fresh bool
	// Contended says that another client wrote the state while this one last decided on it.
	Contended bool
	// State is the state; zero if there is none.
	State limits.State
	// Version is the store's own. The table only keeps it.
	Version V
	// Changed is set for a Swap that has to write State. It says no more than its absence when Keep has passed.
	Changed bool
	Keep    time.Duration

	self [1]*Cell[V] // for calls about this cell alone
	now  single[V]   // the decision under way
	busy chan struct{}
	refs int // calls that use or wait for it; guarded by Table.mu
}

// Saw takes in what the store has: a state, or the zero state if there is none.
func (c *Cell[V]) Saw(v V, s limits.State) {
	c.Known, c.Fresh, c.Version, c.State = true, true, v, s
}

// lost takes in that it is not known what the store has, unless it was read since.
func (c *Cell[V]) lost() {
	if !c.Fresh {
		c.Known, c.State = false, limits.State{}
	}
}

// Table decides on the states of a store, and remembers them. It is no authority: a state that it remembers wrongly
// costs a request. It is safe for concurrent use.
type Table[V any] struct {
	keep    int
	backoff Backoff

	mu    sync.Mutex
	cells map[string]*Cell[V]
}

// NewTable makes a Table that remembers at most keep states beside those in use.
func NewTable[V any](keep int) *Table[V] {
	return &Table[V]{keep: keep, cells: make(map[string]*Cell[V])}
}

// Do makes a change to the state under name. It waits for calls of this client on the same state, and goes on as long
// as ctx allows: that others were faster is never a denial.
func (t *Table[V]) Do(ctx context.Context, s Store[V], name string, change Change) error {
	c, err := t.take(ctx, name)
	if err != nil {
		return err
	}
	defer t.give(c)
	c.now = single[V]{c, change}
	defer func() { c.now.change = Change{} }()
	return t.decide(ctx, s, c.self[:], &c.now)
}

// TakeAll takes all demands or none; names has the name of each one's state. If one is denied, each answer says how
// that demand stands by itself, and all grants are 0. Demands on one state add up. The demands have been checked.
func (t *Table[V]) TakeAll(ctx context.Context, s Store[V], names []string, demands []driver.Demand) ([]driver.Taken, error) {
	if len(demands) == 0 {
		return nil, nil
	}
	m := &multi[V]{demands: demands, of: make([]*Cell[V], len(demands)), taken: make([]driver.Taken, len(demands))}
	sorted := slices.Compact(slices.Sorted(slices.Values(names))) // so that two calls never wait for each other
	cells := make([]*Cell[V], len(sorted))
	for i, name := range sorted {
		c, err := t.take(ctx, name)
		if err != nil {
			return nil, err
		}
		defer t.give(c)
		cells[i] = c
	}
	for i, name := range names {
		at, _ := slices.BinarySearch(sorted, name)
		m.of[i] = cells[at]
	}
	if err := t.decide(ctx, s, cells, m); err != nil {
		return nil, err
	}
	return m.taken, nil
}

// Lock waits until no other call of this client decides on what is under name, and keeps others from it until unlock is
// called. It is for an adapter that decides by itself, on something else than a limit.
func (t *Table[V]) Lock(ctx context.Context, name string) (unlock func(), err error) {
	c, err := t.take(ctx, name)
	if err != nil {
		return nil, err
	}
	return func() { t.give(c) }, nil
}

// Forget calls drop for the states that no call uses, and forgets those for which it is true. drop must not block.
func (t *Table[V]) Forget(drop func(*Cell[V]) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, c := range t.cells {
		if c.refs == 0 && drop(c) {
			delete(t.cells, name)
		}
	}
}

// enter gives the cell of a name.
func (t *Table[V]) enter(name string) *Cell[V] {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.cells[name]
	if c == nil {
		for other, old := range t.cells {
			if len(t.cells) < t.keep || old.refs > 0 {
				break // the next call will find others
			}
			delete(t.cells, other)
		}
		c = &Cell[V]{Name: name, busy: make(chan struct{}, 1)}
		c.self[0] = c
		t.cells[name] = c
	}
	c.refs++
	return c
}

func (t *Table[V]) leave(c *Cell[V]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.refs--; c.refs == 0 && len(t.cells) > t.keep {
		delete(t.cells, c.Name)
	}
}

// take waits until no other call decides on the cell of a name, and gives it. End with give.
func (t *Table[V]) take(ctx context.Context, name string) (*Cell[V], error) {
	c := t.enter(name)
	select {
	case c.busy <- struct{}{}:
		return c, nil
	default:
	}
	select {
	case c.busy <- struct{}{}:
		return c, nil
	case <-ctx.Done():
		t.leave(c)
		return nil, driver.NotSent(ctx.Err())
	}
}

func (t *Table[V]) give(c *Cell[V]) {
	<-c.busy
	t.leave(c)
}

// decision is what is decided on cells.
type decision[V any] interface {
	// peeks reports whether it never changes anything.
	peeks() bool
	// on decides, and sets Changed and Keep of the cells that it has changed.
	on(s Store[V], now int64) (changed bool)
}

// decide makes a decision that stands. Cells are those of this call.
func (t *Table[V]) decide(ctx context.Context, s Store[V], cells []*Cell[V], d decision[V]) error {
	for _, c := range cells {
		c.Fresh = false
	}
	latest := d.peeks()
	for defeats := 0; ; {
		if err := load(ctx, s, cells, latest); err != nil {
			return err
		}
		known := true
		for _, c := range cells {
			known, c.Changed, c.Keep = known && c.Known, false, 0
		}
		now := s.Now()
		if !d.on(s, now) {
			if !stale(s, cells, true) {
				for _, c := range cells {
					c.Contended = false
				}
				return nil
			}
			latest = true
			continue
		}
		for _, c := range cells {
			c.Fresh = false
		}
		sent := time.Now()
		swapped, err := s.Swap(ctx, cells, now)
		for _, c := range cells {
			if err == nil && swapped {
				c.Known, c.Contended = true, defeats > 0
			} else {
				c.lost()
			}
		}
		if err != nil {
			return err
		}
		t.backoff.Observe(time.Since(sent))
		if swapped {
			return nil
		}
		latest = false
		if !known {
			continue // nobody was faster: the state was not known
		}
		if err := t.pause(ctx, defeats); err != nil {
			return err
		}
		defeats++
	}
}

// briefAfter is after how many defeats the pauses of a caller are brief. During a long one the winner may write several times
// in a row, and what the caller has read is old: it would lose against such a row for ever.
const briefAfter = 12

func (t *Table[V]) pause(ctx context.Context, defeats int) error {
	if defeats >= briefAfter {
		return t.backoff.brief(ctx)
	}
	return t.backoff.Pause(ctx, defeats)
}

// stale reports whether a cell has to be read before the next decision.
func stale[V any](s Store[V], cells []*Cell[V], latest bool) bool {
	return slices.ContainsFunc(cells, func(c *Cell[V]) bool { return needs(s, c, latest) })
}

func needs[V any](s Store[V], c *Cell[V], latest bool) bool {
	return !c.Fresh && (latest || !s.Trust(c))
}

// load reads the cells that have to be read.
func load[V any](ctx context.Context, s Store[V], cells []*Cell[V], latest bool) error {
	if !stale(s, cells, latest) {
		return nil
	}
	if len(cells) > 1 {
		cells = slices.DeleteFunc(slices.Clone(cells), func(c *Cell[V]) bool { return !needs(s, c, latest) })
	}
	err := s.Load(ctx, cells, latest)
	if err == nil {
		return nil
	}
	for _, c := range cells {
		c.lost()
	}
	return driver.NotSent(err)
}

// single is a change to one cell.
type single[V any] struct {
	c      *Cell[V]
	change Change
}

func (d *single[V]) peeks() bool { return d.change.Peek }

func (d *single[V]) on(s Store[V], now int64) (changed bool) {
	s.Look(d.c, d.change.Limit, now)
	if d.change.Apply(&d.c.State, now) {
		d.c.Changed, d.c.Keep = true, d.c.State.Expiry(d.change.Limit, now)
	}
	return d.c.Changed
}
