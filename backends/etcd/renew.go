package etcd

import (
	"context"
	"errors"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/coordgo/coord/driver"
)

func (b *backend) renewOne(ctx context.Context, p place, r driver.Request) (driver.Grant, error) {
	out := b.renew(ctx, p.shared, []driver.Hold{{Key: p.key, Request: r}})
	return out[0].Grant, out[0].Err
}

// renewal is one hold on its way through a renewal.
type renewal struct {
	driver.Hold
	shared  bool
	out     *driver.Renewal
	e       *entry
	seconds int64
	from    *lease // that it is bound to
	to      *lease // that it is to be bound to
	value   string // of an entry that is to be bound to another lease

	answered func() // of the request that proves it
	stays    bool   // on its lease, in whatever term that was renewed, since the store grants no other
}

func (n *renewal) place() place { return place{n.Key, n.ID, n.shared} }

// renew renews what this client holds in few requests, and anything else one by one.
func (b *backend) renew(ctx context.Context, shared bool, holds []driver.Hold) []driver.Renewal {
	out := make([]driver.Renewal, len(holds))
	var ours, moving, others []*renewal
	for i, h := range holds {
		n := &renewal{Hold: h, shared: shared, out: &out[i], seconds: b.seconds(h.TTL)}
		switch known, err := b.lookUp(n); {
		case err != nil:
			n.out.Err = err
		case n.to == nil && known:
			moving = append(moving, n)
		case known:
			ours = append(ours, n)
		default:
			others = append(others, n)
		}
	}
	others = append(others, b.move(ctx, moving)...)
	for _, n := range moving {
		if b.stays(n) {
			ours = append(ours, n)
		}
	}
	others = append(others, b.renewOurs(ctx, ours)...)
	others = append(others, b.renewOurs(ctx, b.overtaken(ours))...)
	for _, n := range others {
		n.out.Grant, n.out.Err = b.renewOther(ctx, n)
	}
	return out
}

// move renews holds on another lease than theirs. It takes no more than half of the time, so that those which the store
// refuses can be renewed where they are.
func (b *backend) move(ctx context.Context, moving []*renewal) (others []*renewal) {
	if len(moving) == 0 {
		return nil
	}
	if until, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(until)/2)
		defer cancel()
	}
	return b.renewOurs(ctx, moving)
}

// stays makes a hold that could not be moved one that is to be renewed on the lease that it has. A full store refuses new
// leases, and renews old ones. What an earlier request may have made then lives on with the hold. One that may still be moved
// does not stay.
func (b *backend) stays(n *renewal) bool {
	if n.out.Err == nil || errors.Is(n.out.Err, driver.ErrNotHeld) || b.seconds(n.TTL) > n.from.seconds || b.mayMove(n.e) {
		return false
	}
	outdated := b.outdated(n.from)
	if outdated && !errors.Is(n.out.Err, rpctypes.ErrNoSpace) {
		return false
	}
	n.to, n.out.Err, n.stays = n.from, nil, outdated
	return true
}

// overtaken gives the holds that were renewed in another raft term than that of their lease. They have to move, at once.
func (b *backend) overtaken(ours []*renewal) (moving []*renewal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range ours {
		if n.out.Err == nil && !n.stays && n.e.state == held && b.outdated(n.e.lease) {
			n.from, n.to, n.value = n.e.lease, nil, n.e.value(n.e.id)
			n.seconds = max(n.seconds, n.from.seconds)
			moving = append(moving, n)
		}
	}
	return moving
}

// mayMove reports whether a request may bind e to another lease yet.
func (b *backend) mayMove(e *entry) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return e.moving
}

// renewOurs keeps alive the leases of holds and proves these, in as few requests as the server takes.
func (b *backend) renewOurs(ctx context.Context, ours []*renewal) (others []*renewal) {
	ours = b.keepAlives(ctx, ours)
	for len(ours) > 0 {
		chunk := ours[:min(len(ours), b.ops.most())]
		found, err := b.prove(ctx, chunk)
		if b.ops.tooMany(err, len(chunk)) {
			continue
		}
		ours = ours[len(chunk):]
		others = append(others, found...)
	}
	return others
}

// lookUp finds the entry of a hold. ErrNotHeld: it has lapsed.
func (b *backend) lookUp(n *renewal) (known bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[n.place()]
	switch {
	case e == nil, e.state == unsure, e.head:
		return false, nil
	case e.state != held:
		return true, driver.ErrNotHeld
	case !time.Now().Before(e.deadline):
		b.remove(e)
		return true, driver.ErrNotHeld
	case e.share != e.share.Shrunk(n.Share): // what is made smaller is read before
		n.e = e
		return false, nil
	}
	n.e, n.from, n.to = e, e.lease, e.lease
	if e.lease.tainted || e.lease.seconds < n.seconds {
		n.seconds = max(n.seconds, e.lease.seconds)
		n.to, n.value = nil, e.value(e.id)
	}
	return true, nil
}

// keepAlives keeps alive the leases of a batch at a time, and gives those holds whose lease is alive.
func (b *backend) keepAlives(ctx context.Context, batch []*renewal) (alive []*renewal) {
	type target struct {
		lease   *lease
		seconds int64 // without a lease: of the class that is to have one
	}
	type result struct {
		lease    *lease
		answered func() // of a request that follows
		err      error
	}
	targetOf := func(n *renewal) target {
		if n.to != nil {
			return target{lease: n.to}
		}
		return target{seconds: n.seconds}
	}
	results := make(map[target]*result)
	var renewing sync.WaitGroup
	for _, n := range batch {
		to := targetOf(n)
		if results[to] != nil {
			continue
		}
		r := new(result)
		results[to] = r
		renewing.Go(func() {
			if r.lease, r.err = b.renewLease(ctx, to.lease, to.seconds); r.err == nil {
				r.answered = b.confirming(r.lease)
			}
		})
	}
	renewing.Wait()
	for _, n := range batch {
		r := results[targetOf(n)]
		if n.to, n.answered, n.out.Err = r.lease, r.answered, r.err; r.err == nil {
			alive = append(alive, n)
		}
	}
	return alive
}

// renewLease keeps l alive, or finds a lease of the class for holds that have to move. The
// one that they leave was kept alive before now, so that nothing is shortened.
func (b *backend) renewLease(ctx context.Context, l *lease, seconds int64) (*lease, error) {
	now := time.Now()
	if l == nil {
		l, err := b.leaseFor(ctx, seconds)
		if err != nil {
			return nil, err
		}
		return l, b.keepAlive(ctx, l, now)
	}
	// Renewals that come one by one share a request.
	err := b.keepAlive(ctx, l, now.Add(-time.Duration(l.seconds)*time.Second/10))
	if errors.Is(err, errLeaseLost) {
		err = driver.ErrNotHeld
	}
	return l, err
}

// prove asks the store for each entry, and moves those that are to move, in one request. It
// gives those that are bound to a lease which is not ours.
func (b *backend) prove(ctx context.Context, chunk []*renewal) (others []*renewal, err error) {
	ops := make([]*pb.RequestOp, len(chunk))
	for i, n := range chunk {
		if n.to == n.from {
			ops[i] = getOf(n.e.name)
		} else {
			ops[i] = rebinding(record{name: n.e.name, create: n.e.create, value: n.value, lease: n.from.id}, n.value, n.to)
		}
	}
	resp, err := b.txnAgain(ctx, ops...)
	for i, n := range chunk {
		switch {
		case err != nil && n.to != n.from && !driver.Definite(err):
			b.strays(n.place(), n.to)
			n.out.Err = err
		case err != nil:
			n.out.Err = err
		case b.proved(n, resp.Responses[i]):
			n.answered()
			n.out.Grant, n.out.Err = b.extended(n)
		default:
			others = append(others, n)
		}
	}
	return others, err
}

// proved reports whether the entry was found as we know it. If it is gone, or nobody's, the hold is over, and there is nothing
// left to ask.
func (b *backend) proved(n *renewal, resp *pb.ResponseOp) bool {
	found, moved := resp.GetResponseRange(), resp.GetResponseTxn()
	if moved != nil {
		if moved.Succeeded {
			return true
		}
		found = moved.Responses[0].GetResponseRange()
	}
	if len(found.GetKvs()) == 0 {
		b.lose(n.e, errEntryGone)
		return true
	}
	rec, err := b.names.read(n.e.place, found.Kvs[0])
	switch {
	case err != nil, rec.create != n.e.create, rec.released:
		b.lose(n.e, errBroken)
		return true
	case moved != nil: // by the same request, which was sent twice; or else it is on another lease, or smaller
		return rec.lease == n.to.id && rec.value == n.value
	}
	return rec.lease == n.from.id
}

// extended moves the deadline of a hold that was proved.
func (b *backend) extended(n *renewal) (driver.Grant, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := n.e
	if e.state != held || n.to.lost {
		return driver.Grant{}, driver.ErrNotHeld
	}
	if e.lease != n.to {
		b.bind(e, n.to)
	}
	ttl := min(time.Duration(b.seconds(n.TTL))*time.Second, n.to.ttl)
	since := n.to.sure
	if n.stays {
		since = n.to.since
	}
	if d := since.Add(ttl); d.After(e.deadline) && !e.moving {
		e.deadline = d
	}
	return e.grant(e.deadline.Sub(since), since), nil
}

// renewOther renews a hold that this client does not know, or that is bound to another
// client's lease: it takes the hold over.
func (b *backend) renewOther(ctx context.Context, n *renewal) (driver.Grant, error) {
	rec, err := b.heldBy(ctx, n.place())
	if err != nil {
		return driver.Grant{}, err
	}
	g, err := b.adopt(ctx, n.place(), n.Request, rec, n.e)
	if errors.Is(err, driver.ErrLocked) {
		err = driver.ErrNotHeld
	}
	return g, err
}

// heldBy reads the entry of a hold. ErrNotHeld: p is none.
func (b *backend) heldBy(ctx context.Context, p place) (record, error) {
	if p.shared {
		rec, err := b.find(ctx, p)
		if err == nil && rec.head {
			err = driver.ErrNotHeld
		}
		return rec, err
	}
	rec, _, err := b.firstOf(ctx, p.key)
	if err == nil && (rec.id != p.id || rec.released) {
		err = driver.ErrNotHeld
	}
	return rec, err
}
