package etcd

import (
	"context"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/coordgo/coord/driver"
)

// A leader of etcd that stood still, and was replaced meanwhile, may revoke leases when it goes on: those that are over as far
// as it knows. It knows nothing of the keepalives that the next leader answered, so that leases end that live. No version of
// etcd prevents that (docs/decisions/0016-etcd-old-leader.md).
//
// Therefore a hold relies on a keepalive only if it was answered in the raft term in which its lease was granted. Whoever leads
// in that term has seen it, an earlier leader does not know the lease, and a later one begins the lease again. Once another term
// is seen, holds move to leases of that term with their next renewal.
//
// The header of a keepalive's answer has the term before the keepalive. The term after it is that of a later answer which takes
// a quorum, as all reads and writes here do.

// terms are the raft terms that a client has seen.
type terms struct {
	last    atomic.Uint64 // the highest
	answers atomic.Int64  // how many keepalives were answered
	pending atomic.Bool   // keepalives were answered in a term that is not known yet
}

// maxPending is how many keepalives of a lease may be answered in a term that is not known yet, before the last is forgotten.
const maxPending = 32

// keepalive is one that was answered.
type keepalive struct {
	sent   time.Time
	number int64 // of its answer
}

// termKV reports the terms of answers, and how many keepalives had been answered before the request.
type termKV struct {
	pb.KVClient
	terms *terms
	seen  func(before int64, h *pb.ResponseHeader)
}

func (c termKV) Range(ctx context.Context, in *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	before := c.terms.answers.Load()
	resp, err := c.KVClient.Range(ctx, in, opts...)
	if err == nil {
		c.seen(before, resp.Header)
	}
	return resp, err
}

func (c termKV) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	before := c.terms.answers.Load()
	resp, err := c.KVClient.Txn(ctx, in, opts...)
	if err == nil {
		c.seen(before, resp.Header)
	}
	return resp, err
}

// seen takes in the header of an answer to a request before which so many keepalives had been answered.
func (b *backend) seen(before int64, h *pb.ResponseHeader) {
	term := h.GetRaftTerm()
	if term <= b.terms.last.Load() && !b.terms.pending.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if term > b.terms.last.Load() {
		b.terms.last.Store(term)
	}
	b.terms.pending.Store(false)
	for _, l := range b.granted {
		if term > l.term {
			l.tainted, l.pending = true, nil
		}
		for len(l.pending) > 0 && l.pending[0].number <= before {
			l.sure, l.pending = l.pending[0].sent, l.pending[1:]
		}
		if len(l.pending) > 0 {
			b.terms.pending.Store(true)
		}
	}
}

// unproved notes that a keepalive was answered, in a term that is not known yet. backend.mu is held.
func (b *backend) unproved(l *lease, sent time.Time) {
	if b.outdated(l) {
		return
	}
	k := keepalive{sent, b.terms.answers.Add(1)}
	if n := len(l.pending); n == maxPending {
		l.pending[n-1] = k
		return
	}
	l.pending = append(l.pending, k)
	b.terms.pending.Store(true)
}

// outdated reports whether l may be of a term that is over, so that a hold does not rely on keepalives any more. It has to
// move to another lease.
func (b *backend) outdated(l *lease) bool { return l.term < b.terms.last.Load() }

func (b *backend) isOutdated(l *lease) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outdated(l)
}

// settle moves what was granted just now to another lease, if the one that it is on is of a term that is over. If that is not
// possible, the hold is as short as it is.
func (b *backend) settle(ctx context.Context, p place, r driver.Request, g driver.Grant) driver.Grant {
	b.mu.Lock()
	e := b.entries[p]
	settled := e == nil || e.state != held || !b.outdated(e.lease)
	b.mu.Unlock()
	if settled {
		return g
	}
	if moved, err := b.renewOne(ctx, p, r); err == nil {
		return moved
	}
	return g
}

// confirm finds out the term in which the keepalives of l were answered, if that is not known yet.
func (b *backend) confirm(ctx context.Context, l *lease) error {
	b.mu.Lock()
	known := len(l.pending) == 0
	b.mu.Unlock()
	if known {
		return nil
	}
	_, err := b.get(ctx, clientv3.OpGet(b.names.ping(), clientv3.WithCountOnly()))
	return err
}
