package etcd

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/coordgo/coord/driver"
)

// A request that makes an entry goes on when its caller is cancelled. One that was cancelled on its way may have been
// applied or not, so its lease would have to end, and all holds that share the lease to be written again.

// makeWithin is how long such a request may take. One that meets a member which hangs is then made again by its caller, at
// another member. It is longer than the election of a leader takes by default. The request may be applied later still: its
// entry is on a tainted lease, with which it ends at the latest. Package coord removes it before that, by Unlock of its id.
const makeWithin = 2 * time.Second

// making is such a request. backend.mu guards it.
type making struct {
	e    *entry
	resp *pb.TxnResponse
	err  error
	done chan struct{} // closed when the request is over
	left bool          // its caller has gone
}

// makeEntry makes the entry e on l by a transaction, which may be one of several in a request. e.create is 0 if its condition
// does not hold. A lease whose part in what has become of it is unknown is tainted: what may have been made ends with it. left
// says that ctx has ended first: then the entry is removed as soon as it is known to be there.
func (b *backend) makeEntry(ctx context.Context, e *entry, l *lease, txn *pb.TxnRequest) (resp *pb.TxnResponse, left bool, err error) {
	answered := b.confirming(l)
	own, cancel := context.WithTimeout(b.calls.Life(), b.making)
	m := &making{e: e, done: make(chan struct{})}
	if !b.calls.Go(func() {
		defer cancel()
		resp, err := b.perform(valued{own, ctx}, b.names.prefix(e.place), txn)
		if err == nil {
			answered()
		}
		b.made(m, l, resp, err)
	}) {
		cancel()
		return nil, false, driver.ErrClosed
	}
	select {
	case <-m.done:
		return m.resp, false, m.err
	case <-ctx.Done():
	}
	if b.calls.Closed() {
		<-m.done // at once, for its context has ended, too: then it is known whether it was sent
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-m.done:
		return m.resp, false, m.err
	default:
	}
	m.left, e.making = true, m
	b.supersede(b.entries[e.place])
	e.state = unsure
	b.add(e, l)
	return nil, true, ended(ctx)
}

// made takes in how a request has ended.
func (b *backend) made(m *making, l *lease, resp *pb.TxnResponse, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, unknown := m.e, err != nil && !driver.Definite(err)
	if err == nil && resp.Succeeded {
		e.create = resp.Header.Revision
	}
	l.tainted = l.tainted || unknown
	m.resp, m.err = resp, err
	close(m.done)
	if !m.left {
		return
	}
	e.making = nil
	switch {
	case e.state != unsure: // its lease is gone, or it was unlocked
	case unknown:
		b.doubt(e, l)
	case e.create == 0:
		b.drop(e)
	default:
		b.remove(e)
	}
}

// awaitMade waits for a request of an earlier call of the same id, for which nobody waits any more.
func (b *backend) awaitMade(ctx context.Context, p place) error {
	b.mu.Lock()
	var m *making
	if e := b.entries[p]; e != nil {
		m = e.making
	}
	b.mu.Unlock()
	if m == nil {
		return nil
	}
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return driver.NotSent(ended(ctx))
	}
}
