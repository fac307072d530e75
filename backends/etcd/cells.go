package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// take waits for a turn that is a value in a channel.
func take(ctx context.Context, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", driver.ErrNotSent, ended(ctx))
	}
}

// limitTable is what this client remembers of limits. It is no authority: a state that
// it remembers wrongly costs a second request.
type limitTable struct {
	now   func() time.Time
	pause func(context.Context, time.Duration) error
	rtt   atomic.Int64 // round trip of a write, a moving average in ns
	ahead limits.Ahead

	mu          sync.Mutex
	cells       map[string]*cell
	generations map[int64]*generation // by the seconds that a state is to last
}

// maxCells is how many states are remembered beside those in use.
const maxCells = 16_384

func (t *limitTable) init() {
	t.now, t.pause = time.Now, sleep
	t.cells, t.generations = make(map[string]*cell), make(map[int64]*generation)
}

// cell is the state of one limit as this client saw it last. Writers of this client
// take turns, so that they do not defeat each other.
type cell struct {
	name  string
	refs  int           // calls that use it; guarded by limitTable.mu
	lease *stateLease   // that its state was bound to last by this client; guarded by limitTable.mu
	turn  chan struct{} // holds a value while someone decides

	// whoever has the turn
	known    bool  // the store had what follows; otherwise it is a guess: no state
	revision int64 // ModRevision of the state; 0: there was none
	state    limits.State
}

// enter gives the cell of a name.
func (t *limitTable) enter(name string) *cell {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.cells[name]
	if c == nil {
		for other, old := range t.cells {
			if len(t.cells) < maxCells {
				break
			}
			if old.refs == 0 {
				delete(t.cells, other)
			} else {
				break // the next one in line will find others
			}
		}
		c = &cell{name: name, turn: make(chan struct{}, 1)}
		t.cells[name] = c
	}
	c.refs++
	return c
}

func (t *limitTable) leave(c *cell) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.refs--
}

// forget makes the cell one of which nothing is known.
func (c *cell) forget() { c.known, c.revision, c.state = false, 0, limits.State{} }

// read takes in what the store has.
func (c *cell) read(kvs []*mvccpb.KeyValue) error {
	c.forget()
	if len(kvs) > 0 {
		if err := c.state.UnmarshalBinary(kvs[0].Value); err != nil {
			return fmt.Errorf("%.300q: %w", c.name, err)
		}
		c.revision = kvs[0].ModRevision
	}
	c.known = true
	return nil
}

// load reads cells in one request.
func (b *backend) load(ctx context.Context, cells ...*cell) error {
	ops := make([]clientv3.Op, len(cells))
	for i, c := range cells {
		ops[i] = clientv3.OpGet(c.name)
	}
	resp, err := b.txnAgain(ctx, ops...)
	if err != nil {
		return readOnly(ctx, err)
	}
	return readAll(cells, resp)
}

func readAll(cells []*cell, resp *clientv3.TxnResponse) error {
	var errs []error
	for i, c := range cells {
		errs = append(errs, c.read(kvsOf(resp, i)))
	}
	return errors.Join(errs...)
}

// swap writes cells if the store has what we know, and otherwise reads them: one request.
// After an error it is not known what the store has.
func (b *backend) swap(ctx context.Context, cells []*cell, writes []*pb.RequestOp) (swapped bool, err error) {
	cmps := make([]*pb.Compare, len(cells))
	reads := make([]*pb.RequestOp, len(cells))
	for i, c := range cells {
		name := []byte(c.name)
		cmps[i], reads[i] = changedAt(name, c.revision), getOf(name)
	}
	s := step{txn: &pb.TxnRequest{Compare: cmps, Success: writes, Failure: reads}}
	sent := time.Now()
	var a answer
	if len(cells) == 1 {
		s.place = cells[0].name
		a, err = b.perform(ctx, s)
	} else {
		a, err = b.send(ctx, s)
	}
	if err != nil {
		for _, c := range cells {
			c.forget()
		}
		return false, err
	}
	b.limits.measure(time.Since(sent))
	if !a.txn.Succeeded {
		return false, readAll(cells, (*clientv3.TxnResponse)(a.txn))
	}
	for i, c := range cells {
		switch {
		case writes[i].GetRequestDeleteRange() != nil:
			c.forget()
		case writes[i].GetRequestPut() != nil:
			c.revision = a.revision
		}
		c.known = true
	}
	return true, nil
}

func (t *limitTable) measure(d time.Duration) {
	old := t.rtt.Load()
	if old == 0 {
		old = int64(d)
	}
	t.rtt.Store(old + (int64(d)-old)/8)
}

const (
	// maxBackOff bounds a pause after a defeat.
	maxBackOff = 20 * time.Millisecond
	// eagerAfter is after how many defeats a decision pauses no more.
	eagerAfter = 6
)

// backOff pauses after a defeat by another client: at random, within a range that begins at
// the round trip and doubles with each defeat. The winner goes on with the state that it has
// written, meanwhile, and makes several decisions in a row. But whoever pauses has a state that
// is old when it tries again, and would lose against such a row for ever: so the one that was
// defeated most often does not pause.
//
// It goes on as long as ctx allows; that others were faster is never a denial.
func (t *limitTable) backOff(ctx context.Context, defeats int) error {
	if defeats >= eagerAfter {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", driver.ErrNotSent, ended(ctx))
		}
		return nil
	}
	most := min(time.Duration(t.rtt.Load())<<defeats, maxBackOff)
	if err := t.pause(ctx, rand.N(max(most, time.Microsecond))); err != nil {
		return errors.Join(driver.ErrNotSent, err)
	}
	return nil
}

// generation is the leases that the states of one class share. They are not kept alive: what was written on one of them
// lasts long enough.
type generation struct {
	asking ctxMutex // held while a lease is asked for
	leases []*stateLease
}

// stateLease is one of them.
type stateLease struct {
	id     clientv3.LeaseID
	until  time.Time
	states int // that this client has bound to it
}

// lasts reports whether a state that needs d is kept long enough.
func (l *stateLease) lasts(d time.Duration) bool {
	return l != nil && time.Until(l.until) >= d
}

// maxStates is how many states share a lease. A lease that ends takes its keys in one step, for which the server stops: for
// 5 µs a key or so.
const maxStates = 10_000

// maxLeases is how many leases of a class are used at a time; with those that are not used any more there are half as many
// again. Beyond 640,000 states each has more of them: of a million, 16,000, for whose end the server stops 80 ms.
const maxLeases = 64

// Leases of a generation last three times as long as a state of the class needs, and
// are used for two thirds of that: a decision costs no request for its expiry.
const (
	generationLife = 3
	// minClass is the shortest class; each next one is twice as long.
	minClass = 64
	maxClass = clientv3.MaxLeaseTTL / generationLife
)

// classOf is the class of a state that is to last for d, in seconds.
func classOf(d time.Duration) int64 {
	c := int64(minClass)
	for c < maxClass && time.Duration(c)*time.Second < d {
		c *= 2
	}
	return min(c, maxClass)
}

// lease gives a lease for the state of c that lasts at least for d from now. A state stays on its lease as long as it can, so
// that leases are as few as states need, however often they are written. Its errors changed nothing.
func (t *limitTable) lease(ctx context.Context, b *backend, c *cell, d time.Duration) (clientv3.LeaseID, error) {
	class := classOf(d)
	t.mu.Lock()
	g := t.generations[class]
	if g == nil {
		g = &generation{}
		t.generations[class] = g
	}
	id := t.bind(c, g, class, d)
	t.mu.Unlock()
	if id != clientv3.NoLease {
		return id, nil
	}
	unlock, err := g.asking.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	t.mu.Lock()
	id = t.bind(c, g, class, d)
	t.mu.Unlock()
	if id != clientv3.NoLease {
		return id, nil
	}
	resp, sent, err := b.grantLease(ctx, generationLife*class)
	if err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c.lease = &stateLease{id: resp.ID, until: sent.Add(time.Duration(resp.TTL) * time.Second), states: 1}
	g.leases = append(g.leases, c.lease)
	return resp.ID, nil
}

// bind finds a lease for c: the one that it has, or else the newest, or if there are many the one with the fewest states.
// NoLease: there is to be another. limitTable.mu is held.
func (t *limitTable) bind(c *cell, g *generation, class int64, d time.Duration) clientv3.LeaseID {
	if c.lease.lasts(d) {
		return c.lease.id
	}
	whole := time.Duration(class) * time.Second
	g.leases = slices.DeleteFunc(g.leases, func(l *stateLease) bool { return !l.lasts(whole) })
	n := len(g.leases)
	if n == 0 {
		return clientv3.NoLease
	}
	l := g.leases[n-1]
	if l.states >= maxStates {
		if n < maxLeases {
			return clientv3.NoLease
		}
		l = slices.MinFunc(g.leases, func(x, y *stateLease) int { return cmp.Compare(x.states, y.states) })
	}
	l.states++
	c.lease = l
	return l.id
}

// leaseRefused reports whether a write failed because the server does not know a lease any
// more, which it has lost or someone has revoked. New ones are then asked for.
func (t *limitTable) leaseRefused(err error) bool {
	if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.cells {
		c.lease = nil
	}
	clear(t.generations)
	return true
}
