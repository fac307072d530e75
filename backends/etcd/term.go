package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A leader of etcd that stood still, and was replaced meanwhile, may revoke leases when it goes on: those that are over as far
// as it knows. It knows nothing of the keepalives that the next leader answered, so that leases end that live. No version of
// etcd prevents that (docs/decisions/0016-etcd-old-leader.md).
//
// Therefore a hold relies on a keepalive only if it was answered in the raft term in which its lease was granted. Whoever leads
// in that term has seen it, an earlier leader does not know the lease, and a later one begins the lease again. Once another term
// is seen, holds move to leases of that term with their next renewal.
//
// The header of a keepalive's answer has the term before the keepalive. The term after it is that of the answer to a later
// request which takes a quorum, as all reads and writes here do.

// saw takes in the header of such an answer.
func (b *backend) saw(h *pb.ResponseHeader) {
	term := h.GetRaftTerm()
	if term <= b.term.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.term.Store(max(term, b.term.Load()))
	for _, l := range b.granted {
		l.tainted = l.tainted || b.outdated(l)
	}
}

// outdated reports whether l may be of a term that is over, so that a hold does not rely on keepalives any more. It has to
// move to another lease.
func (b *backend) outdated(l *lease) bool { return l.term < b.term.Load() }

// confirming is called before a request that takes a quorum. When that is answered, the function that it gives notes that the
// keepalives of l before it were answered in the term of l, unless another one was seen.
func (b *backend) confirming(l *lease) (answered func()) {
	b.mu.Lock()
	since := l.since
	b.mu.Unlock()
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.outdated(l) && since.After(l.sure) {
			l.sure = since
		}
	}
}

// confirm finds out the term in which the last keepalive of l was answered, if that is not known yet.
func (b *backend) confirm(ctx context.Context, l *lease) error {
	b.mu.Lock()
	known := !l.since.After(l.sure) || b.outdated(l)
	b.mu.Unlock()
	if known {
		return nil
	}
	answered := b.confirming(l)
	_, err := b.get(ctx, &pb.RangeRequest{Key: []byte(b.names.ping()), CountOnly: true})
	if err == nil {
		answered()
	}
	return err
}
