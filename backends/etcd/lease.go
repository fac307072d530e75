package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// errLeaseLost: the server does not know the lease any more. Everything that was
// bound to it is gone.
var errLeaseLost = errors.New("etcd: the lease has expired or was revoked")

// errLapsed: by our clock the lease is over, so that no hold relies on it. The server may have it yet.
var errLapsed = fmt.Errorf("%w, by the clock of this client", errLeaseLost)

// class is the leases of one TTL: one that is in use, and the tainted ones before
// it.
type class struct {
	asking  ctxMutex // held while a lease is asked for
	current *lease   // guarded by backend.mu
}

// lease is one at the store.
//
// A lease is tainted once a request that would bind an entry to it may have been
// applied without our knowing, or may yet be. It is not kept alive any more; what we
// know to be bound to it moves to another lease with its next renewal. So the ghost ends
// with the tainted lease, and a request that arrives later still is refused by the
// server, whatever else this client holds.
//
// A lease that is over by our clock is not used again, even if a late answer says that it lives. The leader of etcd may have
// decided to revoke it. If another leader is elected meanwhile, the lease lives on there, until that request reaches it
// (etcd issue 15247). For the same reason it is used in one raft term only: see term.go.
type lease struct {
	id      int64
	beating ctxMutex // held while a keepalive is under way

	// guarded by backend.mu
	seconds int64
	ttl     time.Duration
	since   time.Time // when the last keepalive was sent that was answered before the lease was over
	ends    time.Time // when the store lets it expire at the latest, but for doubtGrace
	term    uint64    // a raft term that had begun when it was asked for
	sure    time.Time // when the last keepalive was sent that was answered in that term, or it was asked for
	tainted bool
	lost    bool
	bound   map[*entry]struct{}
}

// until is when the store may let the lease expire. It does not move on once it has passed. backend.mu is held.
func (l *lease) until() time.Time { return l.since.Add(l.ttl) }

// answered takes in that the store answered a keepalive, which was sent at sent. backend.mu is held.
func (l *lease) answered(sent time.Time, ttl time.Duration) {
	if ends := sent.Add(ttl); ends.After(l.ends) {
		l.ends = ends
	}
	if sent.After(l.since) && time.Now().Before(l.until()) {
		l.since, l.ttl = sent, ttl
	}
}

// over is why l must not be used any more: errLeaseLost or errLapsed; nil: it may be. backend.mu is held.
func (l *lease) over() error {
	switch {
	case l.lost:
		return errLeaseLost
	case !time.Now().Before(l.until()):
		return errLapsed
	}
	return nil
}

// usable reports whether new entries may be bound to l. backend.mu is held.
func (l *lease) usable() bool { return l != nil && !l.tainted && l.over() == nil }

// seconds is a TTL as the server counts it: rounded up, and not below its minimum.
func (b *backend) seconds(ttl time.Duration) int64 {
	return max(int64((ttl+time.Second-1)/time.Second), b.minTTL)
}

// leaseFor gives a lease of so many seconds of which at least two thirds are left. It
// costs a request once in a third of that time. Its errors changed nothing.
func (b *backend) leaseFor(ctx context.Context, seconds int64) (*lease, error) {
	b.mu.Lock()
	c := b.classes[seconds]
	if c == nil {
		c = &class{}
		b.classes[seconds] = c
	}
	l := c.current
	usable := l.usable()
	b.mu.Unlock()
	if usable {
		err := b.keepAlive(ctx, l, b.ago(l, 3))
		if err == nil || !errors.Is(err, errLeaseLost) && !errors.Is(err, errSilent) {
			return l, err
		}
	}
	unlock, err := c.asking.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	b.mu.Lock()
	other := c.current
	usable = other != l && other.usable()
	b.mu.Unlock()
	if usable {
		return other, nil
	}
	return b.grant(ctx, c, seconds)
}

// grant asks for a new lease. Its caller holds c.asking. A lease whose reply was
// lost is bound to nothing, and ends by itself.
func (b *backend) grant(ctx context.Context, c *class, seconds int64) (*lease, error) {
	l, err := b.newLease(ctx, seconds)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, old := range b.granted {
		if len(old.bound) == 0 && time.Now().After(old.ends) {
			delete(b.granted, id)
		}
	}
	c.current, l.tainted = l, b.outdated(l)
	b.granted[l.id] = l
	return l, nil
}

func (b *backend) newLease(ctx context.Context, seconds int64) (*lease, error) {
	term := b.term.Load()
	resp, sent, err := b.grantLease(ctx, seconds)
	if err != nil {
		return nil, err
	}
	b.beats.prepare()
	ttl := time.Duration(resp.TTL) * time.Second
	return &lease{
		id: resp.ID, seconds: seconds,
		ttl: ttl, since: sent, ends: sent.Add(ttl), term: term, sure: sent, bound: make(map[*entry]struct{}),
	}, nil
}

// ago is an n-th of the lease's time ago.
func (b *backend) ago(l *lease, n int) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Add(-l.ttl / time.Duration(n))
}

// keepAlive sees to it that l was kept alive by a request that was sent at notBefore
// or later. Those who want it at the same time share one request. errLeaseLost says
// that the lease is gone, or errLapsed that it must not be used any more; after any other error it may have been kept alive or
// not, which harms nobody.
func (b *backend) keepAlive(ctx context.Context, l *lease, notBefore time.Time) error {
	enough := func() (bool, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		err := l.over()
		return err != nil || !l.since.Before(notBefore), err
	}
	if ok, err := enough(); ok {
		return err
	}
	unlock, err := l.beating.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if ok, err := enough(); ok {
		return err
	}
	sent, ttl, err := b.sendKeepAlive(ctx, l)
	if err != nil {
		return readOnly(ctx, clientv3.ContextError(ctx, err))
	}
	if ttl <= 0 {
		b.loseLease(l)
		return errLeaseLost
	}
	b.mu.Lock()
	l.answered(sent, time.Duration(ttl)*time.Second)
	b.mu.Unlock()
	_, err = enough()
	return err
}

// sendKeepAlive sends keepalives until one is answered, each by another member of etcd than the one before, as a rule.
// Each may take twice as long as the one before, for it may be that all are slow.
func (b *backend) sendKeepAlive(ctx context.Context, l *lease) (sent time.Time, ttl int64, err error) {
	for patience := answerWithin; ; patience *= 2 {
		sent = time.Now()
		ttl, err = b.beats.send(ctx, l.id, patience)
		if !errors.Is(err, errSilent) || !b.mayLive(l) {
			return sent, ttl, err
		}
	}
}

// mayLive reports whether the store has to have l still.
func (b *backend) mayLive(l *lease) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return l.over() == nil
}

// loseLease tells everyone who is bound to l that it is gone.
func (b *backend) loseLease(l *lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.lost = true
	delete(b.granted, l.id)
	for e := range l.bound {
		b.gone(e, errLeaseLost)
	}
}

// liveLeases are the leases that the store may still have.
func (b *backend) liveLeases() (ids []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for id, l := range b.granted {
		if !l.lost && now.Before(l.ends.Add(doubtGrace)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// hasHold reports whether a hold is bound to a lease.
func (b *backend) hasHold(id int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for e := range b.granted[id].bound {
		if e.state == held {
			return true
		}
	}
	return false
}
