package etcd

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
)

// state is what this client knows of an entry of its own.
type state int

const (
	waiting  state = iota // in the queue, with a call of Lock behind it
	unsure                // perhaps in the queue, perhaps later: a reply was lost
	held                  // the first in the queue, granted to the caller
	kept                  // nobody holds: to be removed at the deadline
	removing              // to be deleted at once
	dropped               // not ours to look after any more
)

// entry is one of ours in a queue at the store. Its fields are guarded by
// backend.mu unless they never change.
//
// A lease is shared by all holds of a TTL, and kept alive for any of them. So that
// each hold ends by itself, the client that made it removes it at its own deadline;
// when the client is dead, nobody keeps the lease alive, and it takes all of them.
type entry struct {
	place
	name   string
	create int64 // revision of its creation; 0: unsure

	shared *sharedPart // nil for a lock

	making   *making // unsure: the request that is still under way
	state    state
	lease    *lease
	moving   bool                    // a request may bind it to another lease yet, which is not kept alive
	refusal  error                   // the server refuses the user what is asked for it; nil: it does not
	refused  time.Time               // since when
	deadline time.Time               // held, kept: when it lapses
	endWait  context.CancelCauseFunc // of the call of Lock; nil: there is none

	look  time.Time // when the janitor looks at it next, at the latest
	index int       // in the schedule, -1 if it is not in it
}

// add puts an entry that is at the store into the table. backend.mu is held.
func (b *backend) add(e *entry, l *lease) {
	e.index = -1
	b.entries[e.place] = e
	if e.shared == nil {
		b.queued[e.key]++
	}
	b.bind(e, l)
}

// bind notes the lease of e. backend.mu is held.
func (b *backend) bind(e *entry, l *lease) {
	if e.lease != nil {
		delete(e.lease.bound, e)
	}
	e.lease, e.moving = l, false
	l.bound[e] = struct{}{}
}

// drop forgets e: it is not at the store any more, or not ours. backend.mu is held.
func (b *backend) drop(e *entry) {
	if e.state == dropped {
		return
	}
	e.state = dropped
	if b.entries[e.place] == e {
		delete(b.entries, e.place)
	}
	if e.shared == nil {
		if b.queued[e.key]--; b.queued[e.key] == 0 {
			delete(b.queued, e.key)
		}
	}
	delete(e.lease.bound, e)
	if e.index >= 0 {
		heap.Remove(&b.due, e.index)
	}
}

// gone takes in the news that the store has e no more. backend.mu is held.
func (b *backend) gone(e *entry, cause error) {
	b.drop(e)
	if e.endWait != nil {
		e.endWait(fmt.Errorf("%w: %w", errOver, cause))
	}
}

// lose takes in that e is no hold and no waiter any more. What is still at the store, being broken, is removed at the
// deadline.
func (b *backend) lose(e *entry, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e.state {
	case held:
		e.state = kept
	case waiting:
		b.gone(e, cause)
	}
}

var (
	errEntryGone = errors.New("etcd: the entry is gone")
	errBroken    = errors.New("etcd: the hold was broken")
)

// remove has e removed in the background. backend.mu is held.
func (b *backend) remove(e *entry) {
	if e.state == removing || e.state == dropped {
		return
	}
	e.state = removing
	if e.index >= 0 {
		heap.Remove(&b.due, e.index)
	}
	b.removing = append(b.removing, e)
	b.reapKick()
}

// plan makes the janitor look at e when something is due for it. backend.mu is held.
func (b *backend) plan(e *entry) {
	e.look = e.deadline
	if e.index < 0 {
		heap.Push(&b.due, e)
	} else {
		heap.Fix(&b.due, e.index)
	}
	if e.look.Before(b.wake) {
		select {
		case b.kick <- struct{}{}:
		default:
		}
	}
}

// janitor ends holds at their deadlines.
func (b *backend) janitor() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		b.mu.Lock()
		b.lookAtDue(time.Now())
		wait := time.Hour
		if len(b.due) > 0 {
			wait = time.Until(b.due[0].look)
		}
		b.wake = time.Now().Add(wait)
		b.mu.Unlock()
		timer.Reset(max(wait, 0))
		select {
		case <-timer.C:
		case <-b.kick:
		case <-b.life.Done():
			return
		}
	}
}

// lookAtDue does what is due. A deadline that was moved on meanwhile is planned
// again, so that a renewal does not touch the schedule. backend.mu is held.
func (b *backend) lookAtDue(now time.Time) {
	for len(b.due) > 0 && !b.due[0].look.After(now) {
		e := b.due[0]
		switch {
		case !now.Before(e.deadline) && e.state == unsure:
			b.outlive(e, now)
		case !now.Before(e.deadline):
			b.remove(e)
		default:
			b.plan(e)
		}
	}
}

// outlive drops what is unsure once its lease has ended, which may have been kept alive meanwhile. backend.mu is held.
func (b *backend) outlive(e *entry, now time.Time) {
	e.deadline = e.lease.ends.Add(doubtGrace)
	if e.lease.lost || !now.Before(e.deadline) {
		b.drop(e)
		return
	}
	b.plan(e)
}

// schedule is a heap of entries by when the janitor looks at them.
type schedule []*entry

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].look.Before(s[j].look) }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

func (s *schedule) Push(x any) {
	e := x.(*entry)
	e.index = len(*s)
	*s = append(*s, e)
}

func (s *schedule) Pop() any {
	old := *s
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	e.index = -1
	return e
}

// lapsed has a hold of id that is past its deadline, or about to be removed, removed
// now, so that id can begin again. It gives the entry of id that is live, if there is one.
func (b *backend) lapsed(ctx context.Context, p place) (*entry, error) {
	b.mu.Lock()
	e := b.entries[p]
	if e == nil {
		b.mu.Unlock()
		return nil, nil
	}
	if e.state == held && !time.Now().Before(e.deadline) {
		b.remove(e)
	}
	live := e.state != removing
	b.mu.Unlock()
	if live {
		return e, nil
	}
	return nil, b.reap(ctx, []*entry{e})
}

// removal removes e unless it is another's by now: made again, or bound to a lease
// that is not the one we know. backend.mu is held.
func removal(e *entry) clientv3.Op {
	return clientv3.OpTxn([]clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(e.name), "=", e.create),
		clientv3.Compare(clientv3.LeaseValue(e.name), "=", e.lease.id),
	}, []clientv3.Op{clientv3.OpDelete(e.name)}, nil)
}

// reap removes entries in one request. That nobody else's is
// removed makes it safe to do again.
func (b *backend) reap(ctx context.Context, list []*entry) error {
	ops := make([]clientv3.Op, len(list))
	b.mu.Lock()
	for i, e := range list {
		ops[i] = removal(e)
	}
	b.mu.Unlock()
	if _, err := b.txn(ctx, nil, ops, nil); err != nil {
		return readOnly(ctx, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range list {
		b.drop(e)
	}
	return nil
}

// removeEntries deletes the entries in removing, and tries again until the store has answered.
func (b *backend) removeEntries() {
	const least, most = 10 * time.Millisecond, time.Second
	pause := least
	for b.awaitRemovals() {
		b.mu.Lock()
		list := b.removing[:min(len(b.removing), b.ops.most())]
		b.mu.Unlock()
		ctx, cancel := context.WithTimeout(b.life, time.Second)
		err := b.reap(ctx, list)
		cancel()
		if b.ops.tooMany(err, len(list)) {
			continue
		}
		if err == nil {
			b.mu.Lock()
			b.removing = b.removing[len(list):]
			b.mu.Unlock()
			pause = least
			continue
		}
		if isRefusal(err) {
			b.abandon(list)
		}
		select {
		case <-time.After(pause):
		case <-b.life.Done():
		}
		pause = min(2*pause, most)
	}
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

// answered takes in what became of a request for e that needs a user who may make it. backend.mu is held.
func (e *entry) answered(err error) {
	switch {
	case err == nil:
		e.refusal = nil
	case isRefusal(err):
		if e.refusal == nil {
			e.refused = time.Now()
		}
		e.refusal = err
	}
}

// isRefused reports whether the server has refused the last such request.
func (b *backend) isRefused(e *entry) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return e.refusal != nil
}

// awaitRemovals waits until an entry is to be removed. It returns false when the backend is closed.
func (b *backend) awaitRemovals() bool {
	for {
		b.mu.Lock()
		n := len(b.removing)
		b.mu.Unlock()
		switch {
		case b.life.Err() != nil:
			return false
		case n > 0:
			return true
		}
		select {
		case <-b.reaping:
		case <-b.life.Done():
			return false
		}
	}
}

func (b *backend) reapKick() {
	select {
	case b.reaping <- struct{}{}:
	default:
	}
}

// hold makes e, which is the first in its queue, a hold of the caller's. backend.mu is
// held.
func (b *backend) hold(e *entry) driver.Grant {
	l := e.lease
	e.state, e.deadline = held, l.sure.Add(l.ttl)
	b.plan(e)
	return e.grant(l.ttl, l.sure)
}

// grant is a lease of e from since. backend.mu is held.
func (e *entry) grant(ttl time.Duration, since time.Time) driver.Grant {
	g := driver.Grant{Token: e.create, TTL: ttl, Since: since}
	if e.shared != nil {
		g.Slot, g.Of = e.shared.slot, e.shared.share.Of
	}
	return g
}

// isHead reports whether e is the head of the queue for a shared key.
func (e *entry) isHead() bool { return e.shared != nil && e.shared.head }

// value is what the store has under the name of e, as far as this client knows. backend.mu is held.
func (e *entry) value() string {
	if e.shared != nil {
		return e.shared.value(e.id)
	}
	return heldValue(e.id)
}
