package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

// attempt is one call of TryLock or Lock. It has the turn of its entry.
type attempt struct {
	b      *backend
	e      *entry
	r      driver.Request
	waits  func()    // tells that it waits; nil: it does not
	t      ticket    // our node, once it is there
	heard  time.Time // when there was a connection, as far as we noticed
	asked  time.Time // when it was asked last whether the user may stay in the queue
	denied time.Time // since when it may not; zero: it may
	handed bool      // a goroutine has the turn now, and clears up
	lost   bool      // a create may have been made
}

func (a *attempt) run(ctx context.Context) (driver.Grant, error) {
	if node, broken := a.e.held(); node != "" {
		if broken {
			return driver.Grant{}, driver.ErrLocked // until its lease is over
		}
		g, err := a.b.renew(ctx, a.e.holdName, a.r)
		if !errors.Is(err, driver.ErrNotHeld) {
			return g, err
		}
	}
	since, alone, err := a.enqueue(ctx)
	if err != nil {
		if a.e.shared && !a.handed && a.lost {
			a.giveUp()
		}
		return driver.Grant{}, err
	}
	if alone {
		return a.granted(since)
	}
	return a.queued(ctx)
}

// granted ends an attempt whose node is the head.
func (a *attempt) granted(since time.Time) (driver.Grant, error) {
	g, err := a.e.hold(a.t, since, a.r.TTL)
	if err != nil {
		a.giveUp()
	} else if a.t.sharing != nil {
		g.Of = a.t.sharing.bound
	}
	return g, err
}

// giveUp has the node removed in the background, with the turn.
func (a *attempt) giveUp() {
	a.handed = true
	a.b.background(func() {
		defer a.e.end()
		if a.e.shared {
			a.b.purge(a.e, a.b.conn.SessionID())
		} else {
			a.b.discard(a.t.path, a.t.session)
		}
	})
}

// enqueue puts a node into the queue. An answer that is lost, it looks for.
func (a *attempt) enqueue(ctx context.Context) (since time.Time, alone bool, err error) {
	defeats := 0 // by other clients
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		session, err := a.b.await(ctx)
		if err != nil {
			return since, false, unknownIf(ctx, a.lost, err)
		}
		since = time.Now()
		t, err := call(ctx, a.b, func() (ticket, error) { return a.make(session) }, a.late)
		switch {
		case errors.Is(err, errLeft):
			a.handed = true
			return since, false, err
		case err == nil:
			a.t, a.heard = t, time.Now()
			if !t.found {
				a.b.lives(session, since)
			}
			return since, t.alone, nil
		case errors.Is(err, errNewSession):
			a.t = t
			a.giveUp()
			return since, false, err
		case errors.Is(err, errNoParent): // its making was interrupted, and is no hold
		case errors.Is(err, errRaced):
			a.b.pause(ctx, rand.N(pauseAfter(defeats, time.Since(since))))
			defeats++
			continue
		case answered(err) || driver.Definite(err):
			return since, false, unknownIf(ctx, a.lost, err)
		case !a.lost:
			a.lost = true
			if !a.e.shared {
				a.b.haunt(a.e, session)
			}
		}
		a.b.pause(ctx, pause) // await sees why it ended
	}
}

// pauseAfter is the most of a pause after a defeat by another client, by how long the attempt took and how many defeats
// came before. Where many come at once, as readers at a deployment, each attempt that is made during another's is in
// vain: with pauses of up to 16 ms 64 readers made 610 to 680 attempts, with these 224 to 240.
func pauseAfter(defeats int, took time.Duration) time.Duration {
	return max(min(took, 10*time.Millisecond), time.Microsecond) << min(defeats+2, 6)
}

// late clears up after a create whose caller has gone, and ends the turn. What was made
// was made in the session of this moment, or in an earlier one, with which it has gone.
func (a *attempt) late(ticket, error) {
	a.b.purge(a.e, a.b.conn.SessionID())
	a.e.end()
}

// make has the node made, unless it is found. The library sends what it has when it has a
// connection, be it in a later session than the one that the attempt began in:
// such a node is no hold, and its ticket, with errNewSession, is for its removal.
func (a *attempt) make(session int64) (t ticket, err error) {
	if a.e.shared {
		return a.makeShared(session)
	}
	if a.lost {
		if t, err = a.b.find(a.e, session); err != nil || t.path != "" {
			return t, err
		}
	}
	t, err = a.create(session)
	return a.b.sameSession(t, session, err)
}

// sameSession gives the outcome of a create that was begun in session.
func (b *backend) sameSession(t ticket, session int64, err error) (ticket, error) {
	if now := b.conn.SessionID(); now != session {
		t.session = now
		if err == nil {
			err = errNewSession
		}
	}
	return t, err
}

// errLostAnswer is an unknown outcome, whatever came after it.
var errLostAnswer = errors.New("zookeeper: the answer to an earlier request was lost")

// unknownIf takes from an error that it is definite.
func unknownIf(ctx context.Context, unknown bool, err error) error {
	switch {
	case !unknown || !driver.Definite(err):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errLostAnswer, ctx.Err())
	}
	return fmt.Errorf("%w: %v", errLostAnswer, err)
}

// queued goes on with a node that may have others before it.
func (a *attempt) queued(ctx context.Context) (driver.Grant, error) {
	withdraw := a.line(true)
	defer a.line(false)
	for {
		p, since, err := a.place(ctx)
		if err == nil && !a.denied.IsZero() {
			err = a.checkRights(ctx)
		}
		if errors.Is(err, driver.ErrCorrupt) {
			return driver.Grant{}, a.takenBack(ctx, err)
		}
		if err != nil {
			if a.ridesOut(ctx, err) {
				continue
			}
			return a.fails(ctx, err)
		}
		switch {
		case !p.found:
			return driver.Grant{}, fmt.Errorf("%w: the wait was withdrawn", driver.ErrNotHeld)
		case p.prev.name == "":
			if since, err = a.proveLife(ctx, since); errors.Is(err, zk.ErrNoNode) {
				continue // it is looked for again
			} else if err == nil {
				return a.granted(since)
			}
			if errors.Is(err, zk.ErrBadVersion) {
				a.giveUp()
				return driver.Grant{}, fmt.Errorf("%w: %w", driver.ErrNotHeld, errBroken)
			}
			if !a.ridesOut(ctx, err) {
				return a.fails(ctx, err)
			}
		case p.head.tag == a.e.tag:
			return a.elsewhere(ctx, p.head)
		case a.waits == nil:
			return driver.Grant{}, a.refused(ctx)
		default:
			a.waits()
		}
		err = a.await(ctx, p.prev, withdraw)
		switch {
		case errors.Is(err, errWithdrawn):
			a.giveUp()
			return driver.Grant{}, fmt.Errorf("%w: the wait was withdrawn", driver.ErrNotHeld)
		case err != nil && !a.ridesOut(ctx, err):
			return a.fails(ctx, err)
		}
	}
}

// fails ends an attempt whose node is in the queue. One that was refused for a whole TTL is not to be made again.
func (a *attempt) fails(ctx context.Context, err error) (driver.Grant, error) {
	a.giveUp()
	if !a.isOut() {
		err = inLine(ctx, err)
	}
	return driver.Grant{}, err
}

// errInLine is an unknown outcome of an attempt whose node is being removed.
var errInLine = errors.New("zookeeper: its node may still be in the queue")

// inLine takes from an error that nothing was changed: there is a node.
func inLine(ctx context.Context, err error) error {
	switch {
	case !driver.Definite(err) || errors.Is(err, driver.ErrClosed):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errInLine, ctx.Err())
	}
	return fmt.Errorf("%w: %v", errInLine, err)
}

// errWithdrawn is an Unlock of an id that waits.
var errWithdrawn = errors.New("zookeeper: the wait was withdrawn")

// line notes that the entry waits, or that it does no more.
func (a *attempt) line(in bool) chan struct{} {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	a.e.withdraw, a.e.watching = nil, false
	if in {
		a.e.withdraw = make(chan struct{})
	}
	return a.e.withdraw
}

// place asks where the node stands.
func (a *attempt) place(ctx context.Context) (p place, since time.Time, err error) {
	since = time.Now()
	own := a.t.path[len(a.e.dir)+1:]
	p, err = call(ctx, a.b, func() (place, error) {
		children, err := a.b.list(a.e.dir, false)
		if err != nil {
			return place{}, err
		}
		return placeOf(children, own)
	}, nil)
	if err == nil {
		a.heard = time.Now()
		if a.b.conn.SessionID() != a.t.session {
			err = errNewSession
		}
	}
	return p, since, err
}

// proveLife gives the sending time of a sign of life, after a listing that was asked for
// at since. In an ensemble a listing is none: the server may have lost its leader.
func (a *attempt) proveLife(ctx context.Context, since time.Time) (time.Time, error) {
	b := a.b
	if b.alone.Load() {
		return since, nil
	}
	if last := b.lastSign(a.t.session); since.Sub(last) < b.lease()/8 {
		return last, nil
	}
	since = time.Now()
	err := b.run(ctx, func() error {
		_, err := b.conn.Multi(&zk.CheckVersionRequest{Path: a.t.path, Version: 0})
		return err
	}, nil)
	if err == nil {
		b.lives(a.t.session, since)
	}
	return since, err
}

// ridesOut reports whether the node is still in the queue, as far as we know, after an
// error, and waits a little. A session that is cut off for its whole timeout has
// ended.
func (a *attempt) ridesOut(ctx context.Context, err error) bool {
	const pause = 10 * time.Millisecond
	switch {
	case a.waits == nil || ctx.Err() != nil || errors.Is(err, errNewSession) || errors.Is(err, driver.ErrClosed):
		return false
	case errors.Is(err, zk.ErrNoAuth):
		return a.endures(ctx)
	case time.Since(a.heard) > a.b.timeout():
		return false
	}
	return a.b.pause(ctx, pause)
}

// refused takes the node back. ErrLocked only if it is certainly gone.
func (a *attempt) refused(ctx context.Context) error {
	err := a.b.run(ctx, func() error { return a.b.remove(a.t.path) }, func(err error) {
		if !answered(err) {
			a.b.discard(a.t.path, a.t.session)
		}
		a.e.end()
	})
	switch {
	case err == nil:
		return driver.ErrLocked
	case errors.Is(err, errLeft):
		a.handed = true
	default:
		a.giveUp()
	}
	return inLine(ctx, err)
}

// takenBack takes the node back because of why, which is given only if the node is certainly gone.
func (a *attempt) takenBack(ctx context.Context, why error) error {
	if err := a.refused(ctx); !errors.Is(err, driver.ErrLocked) {
		return err
	}
	return why
}

// elsewhere answers an id that holds through another client. How long its session lasts, only
// that client knows: the token is certain, the lease is not.
func (a *attempt) elsewhere(ctx context.Context, head child) (driver.Grant, error) {
	stat, err := call(ctx, a.b, func() (*zk.Stat, error) {
		_, stat, err := a.b.conn.Get(a.e.dir + "/" + head.name)
		return stat, err
	}, nil)
	if refusal := a.refused(ctx); !errors.Is(refusal, driver.ErrLocked) {
		return driver.Grant{}, refusal
	}
	switch {
	case errors.Is(err, zk.ErrNoNode) || err == nil && stat.Version != 0:
		return driver.Grant{}, driver.ErrLocked
	case err != nil:
		return driver.Grant{}, err
	}
	return driver.Grant{Token: stat.Czxid, Since: time.Now()}, nil
}

// await waits until the node before ours goes.
func (a *attempt) await(ctx context.Context, prev child, withdraw <-chan struct{}) error {
	w, err := call(ctx, a.b, func() (*watch, error) {
		w, _, err := a.b.watchNode(a.e.dir+"/"+prev.name, false)
		return w, err
	}, nil)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	// Watches outlast a connection, but the library is not told that a session has
	// ended before it has a connection again.
	a.b.mu.Lock()
	a.e.watching = true
	a.b.mu.Unlock()
	tick := time.NewTicker(max(a.b.timeout()/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-w.done:
			return nil
		case <-withdraw:
			return errWithdrawn
		case <-ctx.Done():
			return ctx.Err()
		case <-a.b.closing:
			return driver.ErrClosed
		case <-tick.C:
			switch id := a.b.conn.SessionID(); {
			case id != a.t.session:
				return errNewSession
			case a.b.conn.State() == zk.StateHasSession:
				a.heard = time.Now()
				if err := a.checkRights(ctx); errors.Is(err, zk.ErrNoNode) {
					return nil // the listing says what has gone
				} else if err != nil {
					return err
				}
			case time.Since(a.heard) > a.b.timeout():
				return fmt.Errorf("%w: no connection for its timeout", errNewSession)
			}
		}
	}
}
