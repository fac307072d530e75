package coord

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// Asks of one limit that come while a call on it is under way fly together in the
// next one: a hot key costs one call for as many asks as came meanwhile, and no timer
// holds anyone back. An ask that finds no call under way flies at once, alone, in its own
// goroutine and under its own context.

const (
	// maxFlight is how many asks fly together.
	maxFlight = 256
	// patience is how long asks wait for a call that does not return, before they
	// fly beside it: it may be stuck where they would not be.
	patience = 100 * time.Millisecond
)

// flights are the calls for permits that are under way, and who waits for them.
type flights struct {
	c      *Client
	mu     sync.Mutex
	lines  map[flightKey]*flightLine
	closed bool
}

type flightKey struct {
	key   string
	limit driver.Limit
}

// flightLine is the line of one limit. It exists while a call is under way. Its fields are
// guarded by flights.mu.
type flightLine struct {
	key    flightKey
	flying int // calls under way
	queue  []*rider
	late   *time.Timer // flies the queue beside a call that does not return
}

// rider is an ask in line, and then in flight, or several that fly together.
type rider struct {
	ctx    context.Context
	ask    driver.Ask
	more   []driver.Ask // after ask
	lease  *leaseAsk    // of an ask for more than the rider wants
	flight *flight      // guarded by flights.mu; nil in line
	gone   bool         // it has left; guarded by flights.mu

	done chan struct{} // closed when the answer is there
	t    driver.TakenOne
	all  []driver.Granted // the answers to ask and more
	err  error
	from origin
}

// flight is one call with the asks of its riders.
type flight struct {
	riders []*rider
	aboard int // riders that still wait; guarded by flights.mu
	cancel context.CancelFunc
}

func (f *flights) init(c *Client) {
	f.c, f.lines = c, make(map[flightKey]*flightLine)
}

// take asks the store for permits, together with others who do. Those who wait in line are
// given of a lease that lands meanwhile, in the order of the line.
func (f *flights) take(ctx context.Context, d *driver.Demand, ask driver.Ask, t *driver.TakenOne, la *leaseAsk) (origin, error) {
	k := flightKey{d.Key, d.Limit}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return fromStore, ErrClosed
	}
	l := f.lines[k]
	if l == nil {
		l = &flightLine{key: k, flying: 1}
		f.lines[k] = l
		f.mu.Unlock()
		defer f.landed(l)
		return fromStore, f.alone(ctx, d, ask, t, la)
	}
	r := &rider{ctx: ctx, ask: ask, lease: la, done: make(chan struct{})}
	f.queue(l, r)
	f.mu.Unlock()
	if err := f.await(l, r); err != nil {
		return fromStore, err
	}
	*t = r.t
	return r.from, nil
}

// takeEach asks the store for several, in one step and in their order, together with others.
func (f *flights) takeEach(ctx context.Context, k flightKey, asks []driver.Ask) (driver.Taken, error) {
	if f.c.denied.off { // a store in this process is quicker than that
		return f.call(ctx, k, asks)
	}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return driver.Taken{}, ErrClosed
	}
	l := f.lines[k]
	if l == nil {
		l = &flightLine{key: k, flying: 1}
		f.lines[k] = l
		f.mu.Unlock()
		defer f.landed(l)
		return f.call(ctx, k, asks)
	}
	r := &rider{ctx: ctx, ask: asks[0], more: asks[1:], done: make(chan struct{})}
	f.queue(l, r)
	f.mu.Unlock()
	if err := f.await(l, r); err != nil {
		return driver.Taken{}, err
	}
	return driver.Taken{Asks: r.all, Remaining: r.t.Remaining, ResetAfter: r.t.ResetAfter}, nil
}

// queue puts r in line. flights.mu is held.
func (f *flights) queue(l *flightLine, r *rider) {
	l.queue = append(l.queue, r)
	if len(l.queue) == 1 {
		f.watch(l)
	}
}

// await waits for the answer.
func (f *flights) await(l *flightLine, r *rider) error {
	select {
	case <-r.done:
	case <-r.ctx.Done():
		if err := f.leave(l, r); err != nil {
			return err
		}
	}
	return r.err
}

// alone makes the call for one ask.
func (f *flights) alone(ctx context.Context, d *driver.Demand, ask driver.Ask, t *driver.TakenOne, la *leaseAsk) error {
	if la == nil {
		err := f.c.callOne(ctx, d, ask, t)
		if err != nil && errs.HasEnded(ctx) {
			f.giveBack(flightKey{d.Key, d.Limit}, &ask)
		}
		return err
	}
	la.sent = f.c.clock.Now()
	err := f.c.callOne(ctx, d, ask, t)
	if err == nil {
		la.landed(t)
	}
	return err
}

// leave takes a rider out whose context has ended. It is nil if the answer has come.
func (f *flights) leave(l *flightLine, r *rider) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-r.done:
		return nil
	default:
	}
	if r.flight == nil {
		r.gone = true // whoever sends the queue off passes it by
		return fmt.Errorf("%w: %w", driver.ErrNotSent, r.ctx.Err())
	}
	r.gone = true
	if r.flight.aboard--; r.flight.aboard == 0 {
		r.flight.cancel()
	}
	return r.ctx.Err() // what it is granted is given back if it has an id, and else counts as spent
}

// giveBack gives back what an ask was granted, or may have been, whose caller has left.
func (f *flights) giveBack(k flightKey, ask *driver.Ask) {
	if ask.ID != "" {
		f.c.refunds.start(k, ask.ID, ask.N, func() {})
	}
}

// watch sees to it that the queue does not wait for ever. flights.mu is held.
func (f *flights) watch(l *flightLine) {
	if l.late == nil {
		l.late = time.AfterFunc(patience, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.lines[l.key] == l {
				f.depart(l)
			}
		})
		return
	}
	l.late.Reset(patience)
}

// landed ends a call. The queue flies next.
func (f *flights) landed(l *flightLine) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.flying--
	f.depart(l)
	if l.flying == 0 {
		delete(f.lines, l.key)
		if l.late != nil {
			l.late.Stop()
		}
	}
}

// serve gives those at the head of the queue what they ask for out of a lease.
// flights.mu is held.
func (f *flights) serve(l *flightLine) {
	b := f.c.leases.Load()
	if b == nil || len(l.queue) == 0 || f.closed {
		return
	}
	p := b.find(l.key.key, &l.key.limit)
	if p == nil {
		return
	}
	for r := l.head(); r != nil; r = l.head() {
		n := r.ask.N
		if r.lease != nil {
			n = r.lease.own
		}
		var got Result
		if n == 0 || len(r.more) > 0 || r.lease == nil && r.ask.ID != "" || !p.spend(n, &got) {
			return
		}
		r.t = driver.TakenOne{Granted: driver.Granted{N: n}, Remaining: got.Remaining, ResetAfter: got.ResetAfter}
		r.all = []driver.Granted{r.t.Granted}
		r.from = fromLease
		close(r.done)
		l.pop()
	}
}

// head is the first of the queue who still waits, nil if nobody does. flights.mu is held.
func (l *flightLine) head() *rider {
	for len(l.queue) > 0 && l.queue[0].gone {
		l.pop()
	}
	if len(l.queue) == 0 {
		return nil
	}
	return l.queue[0]
}

// pop takes the first out of the queue. flights.mu is held.
func (l *flightLine) pop() {
	l.queue[0] = nil
	if l.queue = l.queue[1:]; len(l.queue) == 0 {
		l.queue = nil
	}
}

// depart sends the head of the queue off. flights.mu is held.
func (f *flights) depart(l *flightLine) {
	f.serve(l)
	fl, asks := &flight{}, 0
	for r := l.head(); r != nil && (asks == 0 || asks+1+len(r.more) <= maxFlight); r = l.head() {
		fl.riders = append(fl.riders, r)
		asks += 1 + len(r.more)
		l.pop()
	}
	if len(fl.riders) == 0 {
		return
	}
	if len(l.queue) > 0 {
		f.watch(l)
	}
	fl.aboard = len(fl.riders)
	ctx := fl.board()
	l.flying++
	f.c.bg.Add(1)
	go f.fly(ctx, l, fl)
}

// board gives the context of the call. flights.mu is held.
func (fl *flight) board() (ctx context.Context) {
	contexts := make([]context.Context, len(fl.riders))
	for i, r := range fl.riders {
		r.flight, contexts[i] = fl, r.ctx
	}
	ctx, fl.cancel = untilLast(contexts)
	return ctx
}

// untilLast is a context for a call that is made for several callers: it ends with the last
// of their deadlines, or when it is cancelled.
func untilLast(callers []context.Context) (context.Context, context.CancelFunc) {
	var last time.Time
	ctx := context.WithoutCancel(callers[0])
	for _, c := range callers {
		d, ok := c.Deadline()
		if !ok {
			return context.WithCancel(ctx)
		}
		if d.After(last) {
			last = d
		}
	}
	return context.WithDeadline(ctx, last)
}

// fly makes the call and hands the answers out.
func (f *flights) fly(ctx context.Context, l *flightLine, fl *flight) {
	defer f.c.bg.Done()
	defer f.landed(l)
	defer fl.cancel()
	asks := make([]driver.Ask, 0, len(fl.riders))
	sent := f.c.clock.Now()
	for _, r := range fl.riders {
		asks = append(append(asks, r.ask), r.more...)
		if r.lease != nil {
			r.lease.sent = sent
		}
	}
	taken, err := f.call(ctx, l.key, asks)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.fail(l, fl, err)
		return
	}
	rest := taken.Asks
	for _, r := range fl.riders {
		r.all, rest = rest[:1+len(r.more)], rest[1+len(r.more):]
		r.t = driver.TakenOne{Granted: r.all[0], Remaining: taken.Remaining, ResetAfter: taken.ResetAfter}
		if r.lease != nil {
			r.lease.landed(&r.t)
		} else if r.gone && r.t.N > 0 {
			f.giveBack(l.key, &r.ask)
		}
		close(r.done)
	}
}

// call is Take, whose panic is no reason for its riders to wait for ever.
func (f *flights) call(ctx context.Context, k flightKey, asks []driver.Ask) (taken driver.Taken, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s panicked: %v\n%s", f.c.info.Name, p, debug.Stack())
		}
	}()
	taken, err = f.c.limits.Take(ctx, k.key, k.limit, asks)
	if err == nil && len(taken.Asks) != len(asks) {
		err = fmt.Errorf("%s answered %d asks of %d", f.c.info.Name, len(taken.Asks), len(asks))
	}
	return taken, err
}

// fail tells the riders of fl that the store did not answer. flights.mu is held.
func (f *flights) fail(l *flightLine, fl *flight, err error) {
	for _, r := range fl.riders {
		if r.lease == nil && errs.HasEnded(r.ctx) {
			f.giveBack(l.key, &r.ask)
		}
		r.err = err
		close(r.done)
	}
}

// close lets nothing more fly, and ends the waits of all who are in line.
func (f *flights) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, l := range f.lines {
		for r := l.head(); r != nil; r = l.head() {
			r.err = ErrClosed
			close(r.done)
			l.pop()
		}
	}
}
