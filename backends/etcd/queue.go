package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/coordgo/coord/driver"
)

// Lock implements driver.Queuer. On a free key it is one request, as TryLock is.
func (b *backend) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	if err := check(key, r); err != nil {
		return driver.Grant{}, err
	}
	call, done, err := b.begin(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	defer done()
	p := place{key: key, id: r.ID}
	if g, ok, err := b.heldAlready(call, p, r); ok || err != nil {
		return g, err
	}
	wait, end := context.WithCancelCause(call)
	defer end(nil)
	var w *waiter
	g, err := b.onLease(call, p, r, func(l *lease) (_ driver.Grant, err error) {
		if w, err = b.enqueue(call, p, r, l, end); err != nil {
			return driver.Grant{}, err
		}
		return w.granted, nil
	})
	if err != nil || g.Token > 0 {
		return g, err
	}
	w.waits = sync.OnceFunc(waits)
	if w.before != "" {
		w.waits()
	}
	return b.wait(wait, w)
}

// waiter is a call of Lock that has an entry in the queue.
type waiter struct {
	*entry
	queue   string // the prefix of the queue's entries
	seconds int64
	whole   bool   // the lease begins with the grant
	before  string // the name of the entry before this one, "" if there is none
	made    int64  // the revision that created that entry
	granted driver.Grant
	waits   func()    // reports that another entry comes first
	refusal error     // the server refuses the user; nil: it does not
	refused time.Time // since when
}

// follow sets the entry before w's.
func (w *waiter) follow(before *mvccpb.KeyValue) {
	w.before, w.made = string(before.Key), before.CreateRevision
}

// errNameTaken: another waiter has an entry of that name.
var errNameTaken = errors.New("etcd: the name is taken")

// enqueue makes an entry at the end of the queue, in one transaction, or finds the entry that an earlier
// call of the same id made.
func (b *backend) enqueue(ctx context.Context, p place, r driver.Request, l *lease, end context.CancelCauseFunc) (*waiter, error) {
	name := b.earlierName(p)
	for tries := 0; ; tries++ {
		if name == "" {
			name = b.newName(p.key, tries)
		}
		w, err := b.enqueueAs(ctx, p, r, l, name, end)
		if !errors.Is(err, errNameTaken) {
			return w, err
		}
		name = ""
	}
}

// enqueueAs makes the entry under the given name.
func (b *backend) enqueueAs(ctx context.Context, p place, r driver.Request, l *lease, name string, end context.CancelCauseFunc) (*waiter, error) {
	w := &waiter{queue: b.names.queue(p.key), seconds: b.seconds(r.TTL), whole: r.Whole}
	e := &entry{place: p, name: name}
	resp, left, err := b.makeEntry(ctx, e, l, &pb.TxnRequest{
		Compare: []*pb.Compare{madeAt(name, 0)},
		Success: []*pb.RequestOp{
			putOf(name, heldValue(r.ID), l.id),
			read(newestOfQueue(w.queue, 2, 0)), // the new entry, and the one before it
		},
		Failure: []*pb.RequestOp{getOf(name)},
	})
	switch {
	case left:
		return nil, err
	case err != nil:
	case !resp.Succeeded:
		var its *lease
		if its, e.create, err = b.adoptEntry(ctx, p, w.queue, kvsOf(resp, 0)[0], r); err == nil {
			l = its
		}
	case len(kvsOf(resp, 1)) == 1: // nobody else is there
		w.entry = e
		w.granted, err = b.created(e, l)
		return w, err
	default:
		w.follow(kvsOf(resp, 1)[1])
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.entries[p]
	switch {
	case errors.Is(err, driver.ErrNotSent) && old != nil && old.state == unsure:
		return nil, err // nothing new is known
	case err != nil && !errors.Is(err, errNameTaken) && !driver.Definite(err):
		b.supersede(old)
		e.state = unsure
		b.add(e, l)
		b.doubt(e, l)
		return nil, err
	}
	b.supersede(old)
	if err != nil {
		return nil, err
	}
	w.entry = e
	e.state, e.endWait = waiting, end
	b.add(e, l)
	return w, nil
}

// adoptEntry looks at the entry that has the name. If an earlier call of this id made it, and its reply was lost,
// adoptEntry binds it to a lease that this client keeps alive.
func (b *backend) adoptEntry(ctx context.Context, p place, queue string, there *mvccpb.KeyValue, r driver.Request) (*lease, int64, error) {
	rec, err := readRecord(queue, there)
	switch {
	case err != nil:
		return nil, 0, err
	case rec.id != r.ID:
		return nil, 0, errNameTaken
	case rec.released:
		return nil, 0, fmt.Errorf("%w: id %s was broken", driver.ErrLocked, r.ID)
	}
	l, ours, err := b.rebound(ctx, p, r, &rec)
	switch {
	case err != nil:
		return nil, 0, err
	case !ours:
		return nil, 0, fmt.Errorf("%w: the entry of an earlier call is gone", driver.ErrNotSent)
	}
	return l, rec.create, nil
}

// doubt records that an unsure entry may be in the queue, or may appear there, until its lease is over.
// The lease is tainted: no other entry is bound to it, so that it can end. backend.mu is held.
func (b *backend) doubt(e *entry, l *lease) {
	l.tainted = true
	e.deadline = l.ends.Add(doubtGrace)
	b.plan(e)
}

// doubtGrace is how long after its end the server may notice the end of a lease.
const doubtGrace = time.Second
