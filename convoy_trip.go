package coord

import (
	"context"
	"errors"
	"slices"

	"github.com/coordgo/coord/driver"
)

// trip is what a convoy learns on its way.
type trip struct {
	v      *convoys
	ctx    context.Context
	denied []obstacle
	err    error // that has ended it
}

// obstacle is what stood in the way of one who travelled alone.
type obstacle struct {
	driver.Demand
	denial driver.Taken
	of     answer
}

// serve asks for what members want, which adds up to demands, and answers them. If that is
// too much, or the store refuses some of it, it serves one half and then the other.
func (t *trip) serve(members []*member, demands []driver.Demand) {
	a := answer{err: t.err}
	if t.err == nil {
		a = t.call(demands)
	}
	several := len(members) > 1
	switch {
	case a.err == nil && a.granted(demands):
		for _, m := range members {
			m.arrive(a.of(m, demands))
		}
	case several && (a.err == nil || refuses(a.err)):
		half := len(members) / 2
		t.serveAgain(members[:half])
		t.serveAgain(members[half:])
	case a.err == nil:
		t.learn(a, demands)
		members[0].arrive(a.of(members[0], demands))
	default:
		if !refuses(a.err) {
			t.err = a.err // nothing was taken of what was asked for before: it was denied
		}
		for _, m := range members {
			m.arrive(a)
		}
	}
}

// refuses reports whether err is the store's about one of the demands, while it may do the others.
// Nothing was taken then.
func refuses(err error) bool {
	return errors.Is(err, ErrInvalid) || errors.Is(err, ErrUnsupported) || errors.Is(err, ErrCorrupt)
}

// arrive gives a member the answer.
func (m *member) arrive(a answer) {
	m.answer = a
	close(m.done)
}

// learn keeps what stood in the way of one who travelled alone.
func (t *trip) learn(a answer, demands []driver.Demand) {
	for i, d := range demands {
		if a.taken[i].Asks[0].RetryAfter > 0 {
			t.denied = append(t.denied, obstacle{d, a.taken[i], a})
		}
	}
}

// knows is the answer for m if it asks for something that was denied to another meanwhile.
func (t *trip) knows(m *member) (a answer, ok bool) {
	sums := addUp(nil, m.demands)
	at := slices.IndexFunc(t.denied, func(o obstacle) bool { return slices.Contains(sums, o.Demand) })
	if at < 0 {
		return a, false
	}
	o := &t.denied[at]
	a = answer{taken: make([]driver.Taken, len(m.demands)), sent: o.of.sent, epoch: o.of.epoch}
	for i, d := range m.demands {
		if d.Key == o.Key && d.Limit == o.Limit {
			a.taken[i] = o.denial
		} else {
			a.taken[i] = driver.Taken{Asks: make([]driver.Granted, 1), Remaining: -1} // not looked at
		}
	}
	return a, true
}

// serveAgain serves those who still wait, and of whom it is not known yet that they are denied.
func (t *trip) serveAgain(members []*member) {
	var open []*member
	var demands []driver.Demand
	t.v.mu.Lock()
	for _, m := range members {
		if m.left {
			m.arrive(answer{err: m.ctx.Err()})
		} else if a, known := t.knows(m); known {
			m.arrive(a)
		} else {
			open, demands = append(open, m), addUp(demands, m.demands)
		}
	}
	t.v.mu.Unlock()
	if len(open) > 0 {
		t.serve(open, demands)
	}
}

// call is ask, whose panic is no reason for the members to wait for ever.
func (t *trip) call(demands []driver.Demand) (a answer) {
	defer t.v.c.survive("taking several limits", &a.err)
	return t.v.ask(t.ctx, demands)
}

// of is the part of a that is m's, where demands were asked for: everything, or as it is of
// one who travels alone.
func (a *answer) of(m *member, demands []driver.Demand) answer {
	granted := a.granted(demands)
	own := answer{taken: make([]driver.Taken, len(m.demands)), sent: a.sent, epoch: a.epoch}
	for i, d := range m.demands {
		t := a.taken[indexOf(demands, d)]
		g := driver.Granted{RetryAfter: t.Asks[0].RetryAfter}
		if granted {
			g.N = d.N
		}
		own.taken[i] = driver.Taken{Asks: []driver.Granted{g}, Remaining: t.Remaining, ResetAfter: t.ResetAfter}
	}
	return own
}
