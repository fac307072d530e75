package etcd

import (
	"context"
	"time"

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
	e      *entry
	l      *lease
	create int64
	err    error
	done   chan struct{} // closed when the request is over
	left   bool          // its caller has gone
}

// over reports whether the request is.
func (m *making) over() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// makeEntry makes the entry e on l by a request, which gives the revision of its creation, or 0 if it has made none. left says
// that ctx has ended before that: then the entry is removed as soon as it is known to be there.
func (b *backend) makeEntry(ctx context.Context, e *entry, l *lease, send func(context.Context) (int64, error)) (create int64, left bool, err error) {
	answered := b.confirming(l)
	own, cancel := context.WithTimeout(b.life, b.making)
	m := &making{e: e, l: l, done: make(chan struct{})}
	if !b.start(func() {
		defer cancel()
		create, err := send(valued{own, ctx})
		if err == nil {
			answered()
		}
		b.made(m, create, err)
	}) {
		cancel()
		return 0, false, driver.ErrClosed
	}
	select {
	case <-m.done:
		return m.create, false, m.err
	case <-ctx.Done():
	}
	if b.life.Err() != nil {
		<-m.done // at once, for its context has ended, too: then it is known whether it was sent
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.over() {
		return m.create, false, m.err
	}
	m.left, e.making = true, m
	b.supersede(b.entries[e.place])
	e.state = unsure
	b.add(e, l)
	return 0, true, ended(ctx)
}

// made takes in how a request has ended.
func (b *backend) made(m *making, create int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m.create, m.err = create, err
	close(m.done)
	if !m.left {
		return
	}
	e := m.e
	e.making = nil
	switch {
	case e.state != unsure: // its lease is gone, or it was unlocked
	case err != nil && !driver.Definite(err):
		b.doubt(e, m.l)
	case err != nil, create == 0:
		b.drop(e)
	default:
		e.create = create
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
