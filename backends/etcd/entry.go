package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

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

	sharedPart // zero for a lock

	making   *making // unsure: the request that is still under way
	state    state
	lease    *lease
	moving   bool                    // a request may bind it to another lease yet, which is not kept alive
	deadline time.Time               // held, kept: when it lapses
	endWait  context.CancelCauseFunc // of the call of Lock; nil: there is none

	timer *time.Timer // for the deadline
}

// add puts an entry that is at the store into the table. backend.mu is held.
func (b *backend) add(e *entry, l *lease) {
	b.entries[e.place] = e
	if !e.shared {
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
	if !e.shared {
		if b.queued[e.key]--; b.queued[e.key] == 0 {
			delete(b.queued, e.key)
		}
	}
	delete(e.lease.bound, e)
	e.unplan()
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

// plan has e removed at its deadline. backend.mu is held.
func (b *backend) plan(e *entry) {
	if e.timer == nil {
		e.timer = time.AfterFunc(time.Until(e.deadline), func() { b.atDeadline(e) })
		return
	}
	e.timer.Reset(time.Until(e.deadline))
}

// unplan undoes it. backend.mu is held.
func (e *entry) unplan() {
	if e.timer != nil {
		e.timer.Stop()
	}
}

// atDeadline has e removed, unless its deadline was moved on meanwhile: a renewal does not touch the timer. What is unsure is
// dropped once its lease has ended, which may have been kept alive.
func (b *backend) atDeadline(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.state == unsure {
		e.deadline = e.lease.ends.Add(doubtGrace)
	}
	switch over := !time.Now().Before(e.deadline); {
	case e.state == removing, e.state == dropped:
	case e.state == unsure && (over || e.lease.lost):
		b.drop(e)
	case over:
		b.remove(e)
	default:
		b.plan(e)
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
	return driver.Grant{Token: e.create, TTL: ttl, Since: since, Slot: e.slot, Of: e.share.Of}
}
