package coord

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// Calls of AllowAll that meet at a key travel together, as asks of one limit do (see
// permits.go): those that come while a call over one of their keys is under way wait, and
// their demands then go to the store as one list, in which those of one limit under one key
// are added up. All are granted, or none: then the convoy parts into halves, until
// those that can be granted are found. Every call is granted or denied as a whole, and
// those before it in line first.
//
// Only calls that share a key join one convoy, for what shares no key may be on different
// servers.

// convoys are the calls of AllowAll under way at the store, and who waits for them.
type convoys struct {
	c      *Client
	mu     sync.Mutex
	busy   map[string]int // by key: calls under way
	queue  []*member      // in the order in which they came
	late   *time.Timer    // sends off, beside a call that does not return, who waits for it
	armed  bool           // it runs
	closed bool
}

// member is one AllowAll in line, and then in a convoy.
type member struct {
	ctx     context.Context
	demands []driver.Demand
	convoy  *convoy // guarded by convoys.mu; nil in line
	left    bool    // its caller waits no more; guarded by convoys.mu
	came    time.Duration

	done chan struct{} // closed when the answer is there
	answer
}

// answer is what came of the demands of one AllowAll.
type answer struct {
	taken []driver.Taken // one ask each
	sent  instant        // before the call that decided
	epoch uint64         // of the denials then
	err   error
}

// granted reports whether every demand was met.
func (a *answer) granted(demands []driver.Demand) bool {
	for i, t := range a.taken {
		if t.Asks[0].N != demands[i].N {
			return false
		}
	}
	return true
}

func (v *convoys) init(c *Client) {
	v.c, v.busy = c, make(map[string]int)
}

// take asks the store for all demands, together with others that ask for some of the same.
func (v *convoys) take(ctx context.Context, demands []driver.Demand) answer {
	if v.c.denied.off { // the store is in the process: it would cost more to wait
		return v.ask(ctx, demands)
	}
	v.mu.Lock()
	if !v.meets(demands) {
		v.count(demands, 1)
		v.mu.Unlock()
		defer v.landed(demands)
		return v.ask(ctx, demands)
	}
	m := &member{ctx: ctx, demands: demands, came: v.c.clock.mono(), done: make(chan struct{})}
	v.queue = append(v.queue, m)
	v.watch()
	v.mu.Unlock()
	select {
	case <-m.done:
	case <-ctx.Done():
		if err := v.leave(m); err != nil {
			return answer{err: err}
		}
	}
	return m.answer
}

// ask is one call at the store.
func (v *convoys) ask(ctx context.Context, demands []driver.Demand) (a answer) {
	c := v.c
	a.sent, a.epoch = c.clock.now(), c.denied.epoch.Load()
	a.taken, a.err = c.limits.multi.TakeAll(ctx, demands)
	if a.err == nil && (len(a.taken) != len(demands) || slices.ContainsFunc(a.taken, func(t driver.Taken) bool { return len(t.Asks) != 1 })) {
		a.err = fmt.Errorf("%s answered %d demands of %d", c.info.Name, len(a.taken), len(demands))
	}
	return a
}

// meets reports whether a call over a key of demands is under way. mu is held.
func (v *convoys) meets(demands []driver.Demand) bool {
	return slices.ContainsFunc(demands, func(d driver.Demand) bool { return v.busy[d.Key] > 0 })
}

// count notes a call over demands that begins (1) or ends (-1). mu is held.
func (v *convoys) count(demands []driver.Demand, n int) {
	for _, d := range demands {
		if v.busy[d.Key] += n; v.busy[d.Key] == 0 {
			delete(v.busy, d.Key)
		}
	}
}

// leave takes a member out whose context has ended. It is nil if the answer has come.
func (v *convoys) leave(m *member) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-m.done:
		return nil
	default:
	}
	if m.convoy == nil {
		v.queue = slices.DeleteFunc(v.queue, func(o *member) bool { return o == m })
		return fmt.Errorf("%w: %w", driver.ErrNotSent, m.ctx.Err())
	}
	m.left = true
	if m.convoy.aboard--; m.convoy.aboard == 0 {
		m.convoy.cancel()
	}
	return m.ctx.Err() // what it is granted counts as spent
}

// watch sees to it that nobody waits for ever. mu is held.
func (v *convoys) watch() {
	if v.armed || len(v.queue) == 0 {
		return
	}
	v.armed = true
	if v.late == nil {
		v.late = time.AfterFunc(patience, v.tooLate)
		return
	}
	v.late.Reset(patience)
}

// tooLate sends those off who have waited for long.
func (v *convoys) tooLate() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.armed = false
	now := v.c.clock.mono()
	v.depart(func(m *member) bool { return now-m.came >= patience })
	v.watch()
}

// landed ends a call over demands. Those who meet it go next.
func (v *convoys) landed(demands []driver.Demand) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.count(demands, -1)
	v.depart(func(m *member) bool { return meet(m.demands, demands) })
}

// meet reports whether a and b have a key in common.
func meet(a, b []driver.Demand) bool {
	return slices.ContainsFunc(a, func(d driver.Demand) bool {
		return slices.ContainsFunc(b, func(e driver.Demand) bool { return e.Key == d.Key })
	})
}

// depart sends those off who may go. Who does not fit into the convoy that it meets waits
// for that one. mu is held.
func (v *convoys) depart(mayGo func(*member) bool) {
	var leaving []*convoy
	stay := v.queue[:0]
	for _, m := range v.queue {
		if !mayGo(m) {
			stay = append(stay, m)
			continue
		}
		at := slices.IndexFunc(leaving, func(o *convoy) bool { return meet(o.demands, m.demands) })
		if at < 0 {
			leaving = append(leaving, newConvoy(m))
		} else if !leaving[at].join(m) {
			stay = append(stay, m)
		}
	}
	clear(v.queue[len(stay):])
	v.queue = stay
	for _, o := range leaving {
		v.send(o)
	}
}

// send sends a convoy off. mu is held.
func (v *convoys) send(o *convoy) {
	ctx := o.board()
	if v.closed {
		o.cancel()
		o.fail(o.members, ErrClosed)
		return
	}
	v.count(o.demands, 1)
	v.c.bg.Add(1)
	go v.travel(ctx, o)
}

// travel brings the members of a convoy their answers.
func (v *convoys) travel(ctx context.Context, o *convoy) {
	defer v.c.bg.Done()
	defer v.landed(o.demands)
	defer o.cancel()
	trip := trip{v: v, ctx: ctx}
	trip.serve(o.members, o.demands)
}

// close lets nobody travel any more.
func (v *convoys) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
}

// convoy is members whose demands go to the store as one list.
type convoy struct {
	members []*member
	demands []driver.Demand // each limit of each key once
	aboard  int             // members that still wait; guarded by convoys.mu
	cancel  context.CancelFunc
}

func newConvoy(m *member) *convoy {
	return &convoy{members: []*member{m}, demands: addUp(nil, m.demands)}
}

// join takes m in, unless there would be too many demands, or more of one than its limit
// ever grants.
func (o *convoy) join(m *member) bool {
	if len(o.members) == maxFlight {
		return false
	}
	sums := addUp(slices.Clone(o.demands), m.demands)
	if len(sums) > MaxDemands || slices.ContainsFunc(sums, func(d driver.Demand) bool { return d.N > d.Limit.Max() }) {
		return false
	}
	o.members, o.demands = append(o.members, m), sums
	return true
}

// addUp adds demands to sums, which has each limit of each key once.
func addUp(sums, demands []driver.Demand) []driver.Demand {
	for _, d := range demands {
		if at := indexOf(sums, d); at >= 0 {
			sums[at].N += d.N
		} else {
			sums = append(sums, d)
		}
	}
	return sums
}

// indexOf is where in sums the demands are that are on the limit and the key of d, or -1.
func indexOf(sums []driver.Demand, d driver.Demand) int {
	return slices.IndexFunc(sums, func(s driver.Demand) bool { return s.Key == d.Key && s.Limit == d.Limit })
}

// board gives the context of the calls: it ends when all members have left, and with the
// last of their deadlines. convoys.mu is held.
func (o *convoy) board() (ctx context.Context) {
	contexts := make([]context.Context, len(o.members))
	for i, m := range o.members {
		m.convoy, contexts[i] = o, m.ctx
	}
	o.aboard = len(o.members)
	ctx, o.cancel = untilLast(contexts)
	return ctx
}

func (o *convoy) fail(members []*member, err error) {
	for _, m := range members {
		m.err = err
		close(m.done)
	}
}
