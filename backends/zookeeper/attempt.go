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
	handed bool      // a goroutine has the turn now, and ends it
}

// attempt makes one attempt. It waits if there are waits, which is told of it.
func (b *backend) attempt(ctx context.Context, name holdName, r driver.Request, waits func()) (driver.Grant, error) {
	e, err := b.turn(ctx, name)
	if err != nil {
		return driver.Grant{}, err
	}
	a := &attempt{b: b, e: e, r: r, waits: waits}
	g, err := a.run(ctx)
	if a.handed {
		return g, err
	}
	defer e.end()
	if err != nil && e.stray {
		err = unknown(ctx, err)
	}
	return g, err
}

// errStray is an unknown outcome, whatever came after it.
var errStray = errors.New("zookeeper: an earlier request may have made a node")

// unknown takes from an error that nothing was changed.
func unknown(ctx context.Context, err error) error {
	switch {
	case !driver.Definite(err) || errors.Is(err, driver.ErrClosed):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errStray, ctx.Err())
	}
	return fmt.Errorf("%w: %v", errStray, err)
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
	since, err := a.enqueue(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	if a.t.alone {
		return a.granted(since)
	}
	return a.queued(ctx)
}

// granted ends an attempt whose node is the head.
func (a *attempt) granted(since time.Time) (driver.Grant, error) {
	g, err := a.e.hold(a.t, since, a.r.TTL)
	if err == nil && a.t.sharing != nil {
		g.Of = a.t.sharing.bound
	}
	return g, err
}

// enqueue puts a node into the queue. One whose answer is lost, it looks for.
func (a *attempt) enqueue(ctx context.Context) (since time.Time, err error) {
	defeats := 0 // by other clients
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		session, err := a.b.await(ctx)
		if err != nil {
			return since, err
		}
		since = time.Now()
		stray := a.e.stray
		t, err := call(ctx, a.b, func() (ticket, error) { return a.make(session) }, a.late)
		switch {
		case errors.Is(err, errLeft):
			a.handed = true
			if stray {
				err = unknown(ctx, err)
			}
			return since, err
		case err == nil:
			a.t, a.heard = t, time.Now()
			if !t.found {
				a.b.lives(session, since)
			}
			return since, nil
		case errors.Is(err, errRaced):
			_ = a.b.calls.Pause(ctx, rand.N(pauseAfter(defeats, time.Since(since))))
			defeats++
			continue
		case answered(err) || driver.Definite(err):
			return since, err
		}
		_ = a.b.calls.Pause(ctx, pause) // await sees why it ended
	}
}

// pauseAfter is the most of a pause after a defeat by another client, by how long the attempt took and how many defeats
// came before. Where many come at once, as readers at a deployment, each attempt that is made during another's is in
// vain: with pauses of up to 16 ms 64 readers made 610 to 680 attempts, with these 224 to 240.
func pauseAfter(defeats int, took time.Duration) time.Duration {
	return max(min(took, 10*time.Millisecond), time.Microsecond) << min(defeats+2, 6)
}

// make has the node made, unless it is found. The library sends what it has when it has a
// connection, be it in a later session than the one that the attempt began in:
// such a node is no hold. It is looked for, as one whose answer was lost.
func (a *attempt) make(session int64) (t ticket, err error) {
	if a.e.shared {
		t, err = a.makeShared(session)
	} else if t, err = a.e.find(session); err == nil && t.path == "" {
		t, err = a.create(session)
	}
	if now := a.b.conn.SessionID(); err == nil && now != session {
		t.session, err = now, errNewSession
	}
	return t, err
}

// late removes a node whose caller has gone, and ends the turn. What was made
// was made in the session of this moment, or in an earlier one, with which it has gone.
func (a *attempt) late(t ticket, _ error) {
	if t.path != "" {
		a.b.discard(t.path, a.b.conn.SessionID())
		a.e.stray = false
	}
	a.e.end()
}

// queued goes on with a node that may have others before it.
func (a *attempt) queued(ctx context.Context) (driver.Grant, error) {
	for {
		p, since, err := a.place(ctx)
		if err == nil && !a.denied.IsZero() {
			err = a.checkRights(ctx)
		}
		if errors.Is(err, driver.ErrCorrupt) {
			return driver.Grant{}, a.takeBack(ctx, err)
		}
		if err != nil {
			if a.ridesOut(ctx, err) {
				continue
			}
			return a.fails(ctx, err)
		}
		switch {
		case !p.found:
			a.e.stray = false
			return driver.Grant{}, fmt.Errorf("%w: %w", driver.ErrNotHeld, errRemoved)
		case p.prev.name == "":
			if since, err = a.proveLife(ctx, since); errors.Is(err, zk.ErrNoNode) {
				continue // it is looked for again
			} else if err == nil {
				return a.granted(since)
			}
			if errors.Is(err, zk.ErrBadVersion) {
				return driver.Grant{}, a.takeBack(ctx, fmt.Errorf("%w: %w", driver.ErrNotHeld, errBroken))
			}
			if !a.ridesOut(ctx, err) {
				return a.fails(ctx, err)
			}
		case p.head.tag == a.e.tag:
			return a.elsewhere(ctx, p.head)
		case a.waits == nil:
			return driver.Grant{}, a.takeBack(ctx, driver.ErrLocked)
		default:
			a.waits()
		}
		if err = a.await(ctx, p.prev); err != nil && !a.ridesOut(ctx, err) {
			return a.fails(ctx, err)
		}
	}
}

// fails ends an attempt whose node is in the queue, and has it removed: the session may last. One that was refused for
// a whole TTL is not to be made again.
func (a *attempt) fails(ctx context.Context, err error) (driver.Grant, error) {
	a.handed = true
	a.b.background(func() { a.late(a.t, nil) })
	if !a.isOut() {
		err = unknown(ctx, err)
	}
	return driver.Grant{}, err
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
	err := b.run(ctx, func() error { return b.proveNode(a.t.path) }, nil)
	if err == nil {
		b.lives(a.t.session, since)
	}
	return since, err
}

// proveNode writes nothing if a node is as it was made: a sign of life.
func (b *backend) proveNode(node string) error {
	_, err := b.conn.Multi(&zk.CheckVersionRequest{Path: node, Version: 0})
	return err
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
	return a.b.calls.Pause(ctx, pause) == nil
}

// takeBack removes the node because of why, which is given only if the node is certainly gone.
func (a *attempt) takeBack(ctx context.Context, why error) error {
	err := a.b.run(ctx, func() error { return a.b.remove(a.t.path) }, func(error) { a.late(a.t, nil) })
	switch {
	case err == nil:
		a.e.stray = false
		return why
	case errors.Is(err, errLeft):
		a.handed = true
		err = unknown(ctx, err)
	case errors.Is(err, zk.ErrNoAuth):
		_, err = a.fails(ctx, err)
	}
	return err
}

// elsewhere answers an id that holds through another client. How long its session lasts, only
// that client knows: the token is certain, the lease is not.
func (a *attempt) elsewhere(ctx context.Context, head child) (driver.Grant, error) {
	stat, err := call(ctx, a.b, func() (*zk.Stat, error) {
		_, stat, err := a.b.conn.Exists(a.e.dir + "/" + head.name)
		return stat, err
	}, nil)
	refusal := a.takeBack(ctx, driver.ErrLocked)
	if err != nil || !errors.Is(refusal, driver.ErrLocked) || stat.Czxid == 0 || stat.Version != 0 {
		return driver.Grant{}, refusal
	}
	return driver.Grant{Token: stat.Czxid, Since: time.Now()}, nil
}

// await waits until the node before ours goes.
func (a *attempt) await(ctx context.Context, prev child) error {
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
	tick := time.NewTicker(max(a.b.timeout()/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-w.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-a.b.calls.Life().Done():
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
