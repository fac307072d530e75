package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

// maxBatch is how many holds one transaction checks: their paths fit in a request of
// a megabyte.
const maxBatch = 200

// Renew implements driver.Locker.
func (b *backend) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.renew(ctx, holdName{key: key, id: r.ID}, r)
}

func (b *backend) renew(ctx context.Context, name holdName, r driver.Request) (driver.Grant, error) {
	out := b.renewAll(ctx, []driver.Hold{{Key: name.key, Request: r}}, name.shared)
	return out[0].Grant, out[0].Err
}

// RenewAll implements driver.Locker.
//
// A session is alive if it can write, and a hold if its node is there and was never written
// to: one transaction that checks all nodes proves all holds, and is their sign of
// life. A read would not do: a server that has lost its leader answers reads.
func (b *backend) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	return b.renewAll(ctx, holds, false)
}

func (b *backend) renewAll(ctx context.Context, holds []driver.Hold, shared bool) []driver.Renewal {
	out := make([]driver.Renewal, len(holds))
	var batch, shrinks []proof
	for i, h := range holds {
		if out[i].Err = checkRequest(h.Key, h.Request); out[i].Err != nil {
			continue
		}
		e := b.enter(holdName{h.Key, h.ID, shared})
		defer e.leave()
		if node, broken := e.held(); node == "" || broken {
			out[i].Err = driver.ErrNotHeld
			continue
		}
		b.mu.Lock()
		p := proof{e: e, node: e.node, session: e.session, ttl: h.TTL, out: &out[i], mark: e.mark(h.Share)}
		b.mu.Unlock()
		if p.mark != nil {
			shrinks = append(shrinks, p)
		} else {
			batch = append(batch, p)
		}
	}
	// Also where nothing is to be asked, a call ends with its ctx.
	if err := b.calls.Ready(ctx); err != nil {
		for i := range out {
			out[i] = driver.Renewal{Err: err}
		}
		return out
	}
	for len(batch) > 0 {
		n := min(len(batch), maxBatch)
		b.prove(ctx, batch[:n])
		batch = batch[n:]
	}
	for _, p := range shrinks {
		p.out.Grant, p.out.Err = b.shrink(ctx, p)
	}
	return out
}

// proof is a hold to be proved.
type proof struct {
	e       *entry
	node    string
	session int64
	ttl     time.Duration
	out     *driver.Renewal
	mark    *sharer // of a shared hold that becomes smaller
}

// prove asks for a batch in one transaction. It fails as a whole at the first node that fails:
// those before it have passed, and those after it are asked for again.
func (b *backend) prove(ctx context.Context, batch []proof) {
	for len(batch) > 0 {
		ops := make([]any, len(batch))
		for i, p := range batch {
			ops[i] = &zk.CheckVersionRequest{Path: p.node, Version: 0}
		}
		sent := time.Now()
		failed, err := call(ctx, b, func() (int, error) {
			answers, err := b.conn.Multi(ops...)
			return firstFailure(answers, err), err
		}, nil)
		n := len(batch)
		switch {
		case err == nil:
		case (errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion)) && failed >= 0:
			n = failed
		default:
			for _, p := range batch {
				p.out.Err = err
			}
			return
		}
		for _, p := range batch[:n] {
			p.out.Grant, p.out.Err = p.proved(sent)
			b.lives(p.session, sent)
		}
		if n == len(batch) {
			return
		}
		batch[n].out.Err = batch[n].failed(err)
		batch = batch[n+1:]
	}
}

// failed takes in that the node is not as it was made.
func (p proof) failed(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		p.e.dropNode(p.node)
	} else {
		p.e.revoked(p.node)
	}
	return driver.ErrNotHeld
}

// firstFailure is the index of the check that failed, -1 if none did.
func firstFailure(answers []zk.MultiResponse, err error) int {
	for i, a := range answers {
		if a.Error != nil && err != nil && errors.Is(err, a.Error) {
			return i
		}
	}
	return -1
}

// proved extends a hold whose node was there.
func (p proof) proved(sent time.Time) (driver.Grant, error) {
	if p.e.b.conn.SessionID() != p.session {
		p.e.dropNode(p.node)
		return driver.Grant{}, driver.ErrNotHeld
	}
	return p.e.extend(p, sent)
}
