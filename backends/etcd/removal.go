package etcd

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// remove has e removed in the background. backend.mu is held.
func (b *backend) remove(e *entry) {
	if e.state == removing || e.state == dropped {
		return
	}
	e.state = removing
	e.unplan()
	b.removing = append(b.removing, e)
	if len(b.removing) == 1 {
		b.calls.Go(b.removeEntries)
	}
}

// removeEntries deletes the entries in removing, and tries again until the store has answered.
func (b *backend) removeEntries() {
	const least, most = 10 * time.Millisecond, time.Second
	pause := least
	for list := b.toRemove(nil); len(list) > 0; {
		ctx, cancel := context.WithTimeout(b.calls.Life(), time.Second)
		err := b.reap(ctx, list)
		cancel()
		if err == nil {
			list, pause = b.toRemove(list), least
			continue
		}
		if !b.ops.tooMany(err, len(list)) {
			if isRefusal(err) {
				b.abandon(list)
			}
			if b.calls.Pause(b.calls.Life(), pause) != nil {
				return
			}
			pause = min(2*pause, most)
		}
		list = b.toRemove(nil)
	}
}

// toRemove gives the entries that are to be removed next, after those that have been.
func (b *backend) toRemove(done []*entry) []*entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removing = b.removing[len(done):]
	return b.removing[:min(len(b.removing), b.ops.most())]
}

// removal removes e unless it is another's by now: made again, or bound to a lease
// that is not the one we know. backend.mu is held.
func removal(e *entry) *pb.RequestOp {
	return nested(&pb.TxnRequest{
		Compare: []*pb.Compare{madeAt(e.name, e.create), onLease(e.name, e.lease.id)},
		Success: []*pb.RequestOp{deletionOf(e.name)},
	})
}

// reap removes entries in one request. That nobody else's is
// removed makes it safe to do again.
func (b *backend) reap(ctx context.Context, list []*entry) error {
	ops := make([]*pb.RequestOp, len(list))
	b.mu.Lock()
	for i, e := range list {
		ops[i] = removal(e)
	}
	b.mu.Unlock()
	if _, err := b.txn(ctx, &pb.TxnRequest{Success: ops}); err != nil {
		return readOnly(ctx, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range list {
		b.drop(e)
	}
	return nil
}

// abandon leaves entries that the server does not let the user remove to the end of their leases. What else is bound to those
// moves to others.
func (b *backend) abandon(list []*entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range list {
		e.lease.tainted = true
	}
}

// lapsed removes a hold of p that is past its deadline, or about to be removed, so that its id can begin again. holds says that
// p has a hold that is live.
func (b *backend) lapsed(ctx context.Context, p place) (holds bool, err error) {
	b.mu.Lock()
	e := b.entries[p]
	if e != nil && e.state == held && !time.Now().Before(e.deadline) {
		b.remove(e)
	}
	holds = e != nil && e.state == held
	over := e != nil && e.state == removing
	b.mu.Unlock()
	if over {
		return false, b.reap(ctx, []*entry{e})
	}
	return holds, nil
}
