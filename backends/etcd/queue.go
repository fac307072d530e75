package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
)

// Lock implements driver.Queuer.
func (b *backend) Lock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.lock(ctx, key, r, func() {})
}

// LockDirect implements driver.DirectQueuer: where this client has somebody in line, the key is not tried
// before.
func (b *backend) LockDirect(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	if !b.isInLine(key) {
		g, err := b.TryLock(ctx, key, r)
		if !errors.Is(err, driver.ErrLocked) {
			return g, err
		}
		waits()
		return b.Lock(ctx, key, r)
	}
	return b.lock(ctx, key, r, waits)
}

// isInLine reports whether this client has an entry in the queue of key.
func (b *backend) isInLine(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inLine[key] > 0
}

func (b *backend) lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	if err := check(key, r); err != nil {
		return driver.Grant{}, err
	}
	call, done, err := b.begin(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	defer done()
	if g, ok, err := b.heldAlready(call, key, r); ok || err != nil {
		return g, err
	}
	for again := true; ; again = false {
		l, err := b.leaseFor(call, b.seconds(r.TTL))
		if err != nil {
			return driver.Grant{}, err
		}
		w, err := b.enqueue(call, key, r, l)
		if again && b.leaseRefused(l, err) {
			continue
		}
		if err != nil {
			return driver.Grant{}, err
		}
		w.waits = sync.OnceFunc(waits)
		if w.before != "" {
			w.waits()
		}
		return b.wait(call, w)
	}
}

// waiter is a call of Lock in line.
type waiter struct {
	*entry
	line    string
	seconds int64
	whole   bool   // the lease is to begin with the grant
	before  string // the entry right before ours, "" if there is none
	made    int64  // the revision that made it
	granted driver.Grant
	waits   func() // of LockDirect: ours is not the first
}

const (
	// ownNumbers is how many numbers there are for clients. Two clients may have one number: that costs the second waiter
	// a request.
	ownNumbers = 1023
	// leastNumbers is how many numbers there are at least to choose among. More would take the server longer for each lock.
	leastNumbers = 64
)

// errNameTaken: the entry of that name is another waiter's.
var errNameTaken = errors.New("etcd: the name is taken")

// enqueue takes a place in line by one transaction, or finds the one that an earlier
// call of the same id took.
func (b *backend) enqueue(ctx context.Context, key string, r driver.Request, l *lease) (*waiter, error) {
	p := place{key, r.ID}
	name, err := b.earlierName(p)
	if err != nil {
		return nil, err
	}
	for tries := 0; ; tries++ {
		if name == "" {
			name = b.newName(key, tries)
		}
		w, err := b.enqueueAs(ctx, p, r, l, name)
		if !errors.Is(err, errNameTaken) {
			return w, err
		}
		name = ""
	}
}

// newName chooses the name for a waiter's entry: the client's own number, if this is its only entry in the queue, else a
// random one among more than this client has entries there. It may be another waiter's: then the next attempt chooses among
// twice as many.
func (b *backend) newName(key string, tries int) string {
	b.mu.Lock()
	ours := b.inLine[key]
	b.mu.Unlock()
	if ours == 0 && tries == 0 {
		return b.names.entry(key, b.number)
	}
	return b.names.entry(key, 1+rand.IntN((leastNumbers+8*ours)<<min(tries, 10)))
}

// earlierName gives the name for an entry of an earlier call whose reply was lost, "" if there was none.
func (b *backend) earlierName(p place) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[p]
	switch {
	case e == nil:
		return "", nil
	case e.state == waiting, e.state == held:
		return "", fmt.Errorf("%w: id %s waits for this key already: want one wait per id", driver.ErrInvalid, p.id)
	case e.state == unsure:
		return e.name, nil
	}
	return "", nil
}

// enqueueAs makes the entry under a name.
func (b *backend) enqueueAs(ctx context.Context, p place, r driver.Request, l *lease, name string) (*waiter, error) {
	w := &waiter{line: b.names.line(p.key), seconds: b.seconds(r.TTL), whole: r.Whole}
	e := &entry{place: p, name: name}
	var there *mvccpb.KeyValue
	create, left, err := b.makeEntry(ctx, e, l, func(ctx context.Context) (create int64, err error) {
		create, there, err = b.putInLine(ctx, w, name, r.ID, l)
		return create, err
	})
	if left {
		return nil, err
	}
	if err == nil && create == 0 {
		var its *lease
		if its, create, err = b.alreadyInLine(ctx, w.line, there, r); err == nil {
			l = its
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.entries[p]
	switch {
	case errors.Is(err, driver.ErrNotSent) && old != nil && old.state == unsure:
		return nil, err // we know no more than before
	case err != nil && !errors.Is(err, errNameTaken) && !driver.Definite(err):
		b.supersede(old)
		e.state = unsure
		b.add(e, l)
		b.doubt(e, l)
		return nil, err
	case err == nil && create >= maxToken:
		err = fmt.Errorf("etcd: revision %d is above what a token can be, %d", create, int64(maxToken)-1)
	}
	b.supersede(old)
	if err != nil {
		return nil, err
	}
	w.entry = e
	e.create, e.state = create, waiting
	b.add(e, l)
	b.guard(w.entry)
	return w, nil
}

// putInLine makes the transaction. create is 0 if there is an entry of that name.
func (b *backend) putInLine(ctx context.Context, w *waiter, name, id string, l *lease) (create int64, there *mvccpb.KeyValue, err error) {
	resp, err := b.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(name), "=", 0)}, []clientv3.Op{
		clientv3.OpPut(name, heldValue(id), clientv3.WithLease(clientv3.LeaseID(l.id))),
		clientv3.OpGet(w.line, clientv3.WithPrefix(), // the newest two, of which ours is one
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(2)),
	}, []clientv3.Op{clientv3.OpGet(name)})
	switch {
	case err != nil:
		return 0, nil, err
	case !resp.Succeeded:
		return 0, kvsOf(resp, 0)[0], nil
	}
	if newest := kvsOf(resp, 1); len(newest) > 1 {
		w.follow(newest[1])
	}
	return resp.Header.Revision, nil, nil
}

// alreadyInLine looks at the entry that has the name: ours of an earlier call, whose reply was lost, is
// bound to a lease that we keep alive.
func (b *backend) alreadyInLine(ctx context.Context, line string, there *mvccpb.KeyValue, r driver.Request) (*lease, int64, error) {
	rec, err := readRecord(line, there)
	switch {
	case err != nil:
		return nil, 0, err
	case rec.id != r.ID:
		return nil, 0, errNameTaken
	case rec.released:
		return nil, 0, fmt.Errorf("%w: id %s was broken", driver.ErrLocked, r.ID)
	}
	l, ours, err := b.rebound(ctx, r, rec)
	if err == nil && !ours {
		err = fmt.Errorf("%w: the entry in line is gone", driver.ErrNotSent)
	}
	return l, rec.create, err
}

// doubt notes that an unsure entry may be in line, or may yet come, for as long as the tainted
// lease may last that it would be bound to. backend.mu is held.
func (b *backend) doubt(e *entry, l *lease) {
	l.tainted = true
	e.deadline = l.until().Add(doubtGrace)
	b.plan(e)
}

// doubtGrace is how much later than at its end the server may notice the end of a lease.
const doubtGrace = time.Second

// wait waits in line until ours is the first entry. Whatever ends it without a grant has the
// entry removed in the background, so that nobody waits for it.
func (b *backend) wait(ctx context.Context, w *waiter) (driver.Grant, error) {
	err := b.advance(ctx, w)
	if err == nil {
		return w.granted, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.state == waiting {
		b.doom(w.entry)
	}
	return driver.Grant{}, err
}

// advance goes from one predecessor to the next until there is none.
func (b *backend) advance(ctx context.Context, w *waiter) error {
	const least, most = 5 * time.Millisecond, 500 * time.Millisecond
	pause := least
	for {
		err := b.step(ctx, w)
		switch {
		case errors.Is(err, errNext):
			pause = least
			continue
		case err == nil:
			return nil
		case errors.Is(err, driver.ErrCorrupt), errors.Is(err, errOver):
			return err
		case ctx.Err() != nil:
			return ended(ctx)
		}
		// The store did not answer. The place in line is good until the lease ends.
		b.mu.Lock()
		lapsed := !time.Now().Before(w.lease.until())
		b.mu.Unlock()
		if lapsed {
			return err
		}
		if sleep(ctx, pause) != nil {
			return ended(ctx)
		}
		pause = min(2*pause, most)
	}
}

var (
	// errNext: the line has moved, but ours is not the first.
	errNext = errors.New("etcd: the line has moved")
	// errOver: the wait has ended at the store.
	errOver = errors.New("etcd: the wait is over")
)

// step watches the predecessor, makes sure that it is still there, and waits until it is
// gone. nil: ours is the first, and granted.
//
// The watch is established before the look, at the present revision: one from a past
// revision is served by the server's loop for laggards, once in 100 ms.
func (b *backend) step(ctx context.Context, w *waiter) error {
	ctx, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	defer cancel(nil)
	ready := make(chan struct{})
	go func() { // until it awaits the predecessor, which looks at gone itself
		select {
		case <-w.gone:
			cancel(errOver)
		case <-ready:
		}
	}()
	before, err := b.prepare(ctx, w)
	close(ready)
	if err != nil || w.before == "" {
		return b.orOver(w, err)
	}
	return b.orOver(w, b.await(ctx, w, before))
}

// prepare keeps the lease alive if that is due, establishes the watch, and looks.
func (b *backend) prepare(ctx context.Context, w *waiter) (*predecessor, error) {
	if err := b.stayAlive(ctx, w); err != nil {
		return nil, err
	}
	before, made := w.before, w.made
	seen := b.watchBefore(ctx, w)
	if err := b.stillBehind(ctx, w); err != nil || w.before == "" {
		return nil, err
	}
	switch {
	case w.before != before || w.made != made: // another, perhaps of the same name
		return nil, errNext
	case seen == nil:
		return nil, errors.New("etcd: no watch could be established")
	}
	return seen, nil
}

// predecessor is what a waiter sees of the one before it.
type predecessor struct {
	watch *watch
	made  int64
	gone  chan struct{} // closed when it goes
	lost  chan struct{} // closed when the watch is no more
	once  sync.Once     // for gone
}

// saw takes the end of the predecessor for that only if it came after its beginning: names are used
// again, and a member that lags behind begins a watch in its own present, and tells what became of those
// that had the name before.
func (p *predecessor) saw(ev *mvccpb.Event) {
	if ev.Type == mvccpb.DELETE && ev.Kv.ModRevision > p.made {
		p.once.Do(func() { close(p.gone) })
	}
}

func (p *predecessor) blind() { close(p.lost) }

// watchBefore watches the predecessor until ctx ends. A watch is begun for as long as it takes; we
// wait for that only for a time in which the lease need not be kept alive, and nil says that it
// could not be done.
func (b *backend) watchBefore(ctx context.Context, w *waiter) *predecessor {
	if w.before == "" {
		return nil
	}
	b.mu.Lock()
	within := min(w.lease.ttl/3, b.recheck)
	b.mu.Unlock()
	ready := make(chan struct{})
	p := &predecessor{made: w.made, gone: make(chan struct{}), lost: make(chan struct{})}
	p.watch = &watch{key: w.before, of: p, ready: ready}
	b.waits.begin(p.watch)
	context.AfterFunc(ctx, func() { b.waits.end(p.watch) })
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-ready:
		return p
	case <-p.lost:
	case <-ctx.Done():
	case <-timer.C:
	}
	b.waits.end(p.watch)
	return nil
}

// orOver gives why the wait is over at the store, if it is.
func (b *backend) orOver(w *waiter, err error) error {
	select {
	case <-w.gone:
		b.mu.Lock()
		defer b.mu.Unlock()
		return fmt.Errorf("%w: %w", errOver, w.cause)
	default:
		return err
	}
}

// await waits until the predecessor is gone, and looks again.
func (b *backend) await(ctx context.Context, w *waiter, p *predecessor) error {
	looked := time.Now()
	tick := time.NewTimer(b.nextTick(w, looked))
	defer tick.Stop()
	for {
		select {
		case <-p.gone:
			return b.moved(ctx, w)
		case <-p.lost:
			return errors.New("etcd: the watch ended")
		case <-tick.C:
			if err := b.stayAlive(ctx, w); err != nil {
				return err
			}
			if time.Since(looked) >= b.recheck {
				// Should an event have been lost, this finds out.
				before := w.before
				if err := b.stillBehind(ctx, w); err != nil || w.before == "" {
					return err
				}
				if w.before != before || w.made != p.made {
					return errNext
				}
				looked = time.Now()
			}
			tick.Reset(b.nextTick(w, looked))
		case <-w.gone:
			return errOver
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

// moved goes on when the predecessor is gone. It reads the line, though none else was before: only an answer that has
// our entry in it proves that this was not removed meanwhile.
func (b *backend) moved(ctx context.Context, w *waiter) error {
	if err := b.look(ctx, w); err != nil || w.before == "" {
		return err
	}
	return errNext
}

const recheckEvery = 5 * time.Second

// nextTick is how long nothing is to be done for a waiter that looked at its predecessor
// at looked.
func (b *backend) nextTick(w *waiter, looked time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, min(time.Until(w.lease.due()), time.Until(looked.Add(b.recheck))))
}

// due is when a waiter keeps l alive: after a third of its time. All waiters of a lease
// share one keepalive. backend.mu is held.
func (l *lease) due() time.Time { return l.since.Add(l.ttl / 3) }

// stayAlive moves a waiter from a tainted lease, and keeps the lease alive, if that is due. A
// waiter that the store refuses to move stays where it is, as a hold does.
func (b *backend) stayAlive(ctx context.Context, w *waiter) error {
	b.mu.Lock()
	l, tainted, due := w.lease, w.lease.tainted, !time.Now().Before(w.lease.due())
	b.mu.Unlock()
	if tainted {
		moving, cancel := context.WithTimeout(ctx, time.Duration(l.seconds)*time.Second/4) // which leaves time to stay
		err := b.moveWaiter(moving, w)
		cancel()
		if err == nil || errors.Is(err, errOver) {
			return err
		}
	}
	if !due {
		return nil
	}
	return b.keepAlive(ctx, l, b.ago(l, 4))
}

// moveWaiter binds a waiter to another lease.
func (b *backend) moveWaiter(ctx context.Context, w *waiter) error {
	next, err := b.leaseFor(ctx, w.seconds)
	if err != nil {
		return err
	}
	switch there, err := b.rebind(ctx, w.name, w.id, w.create, next); {
	case err != nil:
		return err
	case !there:
		b.lose(w.entry, errEntryGone)
		return errOver
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.state == waiting {
		b.bind(w.entry, next)
	}
	return nil
}

// follow notes what is right before ours.
func (w *waiter) follow(before *mvccpb.KeyValue) {
	w.before, w.made = string(before.Key), before.CreateRevision
}

// stillBehind makes sure that our entry and the one before it are there. It reads
// the line only if that has moved: a line may be long.
func (b *backend) stillBehind(ctx context.Context, w *waiter) error {
	if w.before == "" {
		return b.look(ctx, w)
	}
	resp, err := b.ask(ctx, w, clientv3.OpGet(w.name), clientv3.OpGet(w.before))
	if err != nil {
		return err
	}
	if err := b.standing(w, kvsOf(resp, 0)); err != nil {
		return err
	}
	before := kvsOf(resp, 1)
	if len(before) == 0 || before[0].CreateRevision != w.made {
		return b.look(ctx, w)
	}
	_, err = readRecord(w.line, before[0])
	return err
}

// ask makes a request of a waiter, as often as it takes while the lease may live.
func (b *backend) ask(ctx context.Context, w *waiter, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	b.mu.Lock()
	until := w.lease.until()
	b.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	resp, err := b.txnAgain(ctx, ops...)
	return resp, readOnly(ctx, err)
}

// standing makes sure that our entry is in line as it was put there.
func (b *backend) standing(w *waiter, own []*mvccpb.KeyValue) error {
	if len(own) == 0 || own[0].CreateRevision != w.create {
		b.lose(w.entry, errEntryGone)
		return errOver
	}
	if rec, err := readRecord(w.line, own[0]); err != nil || rec.released {
		b.lose(w.entry, errBroken)
		return errOver
	}
	return nil
}

// look reads our entry and the one right before it, in one request. When there is none
// before it, ours is granted: the answer shows that it is in line, and the first.
func (b *backend) look(ctx context.Context, w *waiter) error {
	resp, err := b.ask(ctx, w,
		clientv3.OpGet(w.name),
		clientv3.OpGet(w.line, clientv3.WithPrefix(), clientv3.WithMaxCreateRev(w.create-1),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(1)))
	if err != nil {
		return err
	}
	own, before := kvsOf(resp, 0), kvsOf(resp, 1)
	if err := b.standing(w, own); err != nil {
		return err
	}
	if len(before) > 0 {
		if _, err := readRecord(w.line, before[0]); err != nil {
			return err
		}
		w.follow(before[0])
		w.waits()
		return nil
	}
	return b.grantTo(ctx, w)
}

// grantTo makes the wait a hold, with a lease that has time left.
func (b *backend) grantTo(ctx context.Context, w *waiter) error {
	b.mu.Lock()
	l := w.lease
	b.mu.Unlock()
	notBefore := b.ago(l, 2)
	if w.whole {
		notBefore = time.Now()
	}
	if err := b.keepAlive(ctx, l, notBefore); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.state != waiting {
		return errOver
	}
	w.before, w.granted = "", b.hold(w.entry)
	return nil
}
