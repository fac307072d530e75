package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/driver/optimistic"
)

// limitTable is what this client remembers of limits.
type limitTable struct {
	stateLeases
	states *optimistic.Table[stored]
	now    func() time.Time
	ahead  limits.Ahead
}

// maxStatesKnown is how many states are remembered beside those in use.
const maxStatesKnown = 16_384

func (t *limitTable) init() {
	t.now, t.states = time.Now, optimistic.NewTable[stored](maxStatesKnown)
	t.generations = make(map[int64]*generation)
}

// update implements optimistic.Update.
//
// The newest state that this client has seen is decided upon, and written if the store still has it: one request. If it
// has another, the same request brings that. A state of which nothing is known is taken for none: the first decision
// on a key is one request, and the first since its state was forgotten two.
func (b *backend) update(ctx context.Context, key string, c optimistic.Change) error {
	call, done, err := b.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	return asClosed(b.limits.states.Do(call, stateStore{b}, b.names.limit(key, c.Limit), c))
}

// asClosed is err, or ErrClosed if Close came before anything was sent.
func asClosed(err error) error {
	if errors.Is(err, errClosing) && errors.Is(err, driver.ErrNotSent) {
		return driver.ErrClosed
	}
	return err
}

// TakeAll implements driver.Limiter, in one request as a rule. Up to 100 states take part.
func (b *backend) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	names := make([]string, len(demands))
	for i, d := range demands {
		if err := limits.Check(d.Limit, driver.Ask{Min: d.N, N: d.N}); err != nil {
			return nil, err
		}
		names[i] = b.names.limit(d.Key, d.Limit)
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(names)))); n > maxOps {
		return nil, fmt.Errorf("%w: %d limits at once: want at most %d", driver.ErrInvalid, n, maxOps)
	}
	call, done, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	taken, err := b.limits.states.TakeAll(call, stateStore{b}, names, demands)
	return taken, asClosed(err)
}

// cell is what this client knows of the state of a limit.
type cell = optimistic.Cell[stored]

// stored is how the store has a state.
type stored struct {
	revision int64       // ModRevision; 0: there is none
	lease    *stateLease // that this client has bound it to last
}

// stateStore implements optimistic.Store.
type stateStore struct{ b *backend }

// Now is this client's clock.
func (s stateStore) Now() int64 { return s.b.limits.now().UnixMicro() }

// Look warns of a state that is ahead of our clock, and ends one that stands still when it may.
func (s stateStore) Look(c *cell, l driver.Limit, now int64) {
	if d, warn := s.b.limits.ahead.Look(&c.State, c.Name, uint64(c.Version.revision), l, now); warn {
		s.b.log.Warn("etcd: another client's clock is ahead of this one's: its limits deny, or grant too much, until the clocks agree", "ahead", d)
	}
}

// Trust never reads first: a write that is refused brings what the store has.
func (stateStore) Trust(*cell) bool { return true }

// Load reads cells in one request.
func (s stateStore) Load(ctx context.Context, cells []*cell, _ bool) error {
	ops := make([]*pb.RequestOp, len(cells))
	for i, c := range cells {
		ops[i] = getOf(c.Name)
	}
	resp, err := s.b.txnAgain(ctx, ops...)
	if err != nil {
		return readOnly(ctx, err)
	}
	return sawAll(cells, resp)
}

func sawAll(cells []*cell, resp *pb.TxnResponse) error {
	var errs []error
	for i, c := range cells {
		errs = append(errs, saw(c, kvsOf(resp, i)))
	}
	return errors.Join(errs...)
}

// saw takes in what the store has.
func saw(c *cell, kvs []*mvccpb.KeyValue) error {
	var s limits.State
	revision := int64(0)
	if len(kvs) > 0 {
		if err := s.UnmarshalBinary(kvs[0].Value); err != nil {
			return fmt.Errorf("%.300q: %w", c.Name, err)
		}
		revision = kvs[0].ModRevision
	}
	c.Saw(stored{revision, c.Version.lease}, s)
	return nil
}

// Swap writes cells if the store has what we know, and otherwise reads them: one request. A state is put on a lease
// that lasts as long as it says more than its absence. Should the server have lost the lease, nothing was written.
func (s stateStore) Swap(ctx context.Context, cells []*cell, _ int64) (swapped bool, err error) {
	b := s.b
	cmps := make([]*pb.Compare, len(cells))
	writes := make([]*pb.RequestOp, len(cells))
	reads := make([]*pb.RequestOp, len(cells))
	for i, c := range cells {
		if !c.Known {
			c.Version.revision = 0
		}
		cmps[i], reads[i] = changedAt(c.Name, c.Version.revision), getOf(c.Name)
		switch {
		case !c.Changed:
			writes[i] = reads[i] // only compared
		case c.Keep == 0:
			writes[i] = deletionOf(c.Name)
		default:
			if writes[i], err = b.putOp(ctx, c); err != nil {
				return false, err
			}
		}
	}
	t := &pb.TxnRequest{Compare: cmps, Success: writes, Failure: reads}
	var resp *pb.TxnResponse
	if len(cells) == 1 {
		resp, err = b.perform(ctx, cells[0].Name, t)
	} else {
		resp, err = b.txn(ctx, t)
	}
	switch {
	case b.limits.refused(err, cells):
		return false, nil
	case err != nil:
		return false, err
	case !resp.Succeeded:
		return false, sawAll(cells, resp)
	}
	for _, c := range cells {
		switch {
		case !c.Changed:
		case c.Keep == 0:
			c.Version.revision, c.State = 0, limits.State{}
		default:
			c.Version.revision = resp.Header.Revision
		}
	}
	return true, nil
}

// putOp is the write of the state of c, on a lease.
func (b *backend) putOp(ctx context.Context, c *cell) (*pb.RequestOp, error) {
	value, err := c.State.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	lease, err := b.limits.lease(ctx, b, c, c.Keep)
	return putOf(c.Name, string(value), lease), err
}
