package hold

import (
	"context"
	"errors"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/partition"
)

// nextLook is when something is due for h, on the monotonic clock: a renewal, which has some slack, so that it may
// come earlier, to join a batch, or the deadline. At now the wall clock may be nearer to either. Manager.mu is held.
func (h *hold) nextLook(now clock.Instant) (next, slack time.Duration) {
	end := h.deadline.Load()
	if h.state == held {
		end = end.Earlier(h.tenure.endBy)
	}
	left := end.Until(now)
	if renew := h.renewAt.Until(now); h.renews() && renew < left {
		return now.Mono + renew, h.span() / 32
	}
	return now.Mono + left, 0
}

// lookAt is nextLook, and false for a hold that is over.
func (h *hold) lookAt() (next, slack time.Duration, ok bool) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	next, slack = h.nextLook(h.m.clock.Now())
	return next, slack, h.state != over
}

// span is what renewals are timed by: the lease that was asked for, or the
// shorter one that a store with sessions granted. Manager.mu is held.
func (h *hold) span() time.Duration { return min(h.by.spec.Lease, h.ttl) }

// renews reports whether a renewal is to come. Manager.mu is held.
func (h *hold) renews() bool {
	if h.by.spec.NoRenew || h.renewing {
		return false
	}
	end := h.tenure.endBy
	return end == clock.Instant{} || h.deadline.Load().Mono < end.Mono
}

// serve ends the holds that are overdue and finds those to renew, and looks after these and all others further. rest does the
// work: all losses are told before anything is cleaned up, so that the last of a hundred thousand holders learns of its own
// as soon as the first. scheduler.mu is held.
func (m *Manager) serve(now clock.Instant, due []*hold) (further []*hold, rest func()) {
	var lost []ended
	var renew []*hold
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range due {
		cause := h.overdue(h.tenure, now)
		switch {
		case h.state == over:
			continue
		case h.state == held && cause != nil:
			lost = append(lost, h.end(nil, cause, lossOf(cause)))
			continue
		case h.deadline.Load().Reached(now): // released, and nothing to hand over, whatever a late renewal says
			h.lost = true
			continue
		case h.renews() && h.renewAt.Until(now) <= h.slack:
			h.renewing = true
			renew = append(renew, h)
		}
		h.next, h.slack = h.nextLook(now)
		further = append(further, h)
	}
	return further, func() {
		if len(renew) > 0 {
			m.bg.Go(func() { partition.ByPart(&m.store.Parts, renew, holdKey, m.renewPart) })
		}
		for _, e := range lost {
			e.cancel()
		}
		for _, e := range lost {
			m.isolate(e.t, func() { m.tidyUp(e.t, m.cleanUp) })
		}
	}
}

// renewPart renews holds on one part of the store, in one request if the store has such.
func (m *Manager) renewPart(holds []*hold) {
	if len(holds) == 1 {
		m.renewOne(holds[0])
		return
	}
	holds, batch, shortest := m.requests(holds)
	if len(holds) == 0 {
		return
	}
	ctx := driver.NewBound(context.Background(), shortest/3)
	defer ctx.Stop()
	sent := m.clock.Now()
	answers := m.store.RenewAll(ctx, batch)
	if answers == nil {
		partition.ForEach(&m.store.Parts, holds, holdKey, m.renewOne)
		return
	}
	for i, h := range holds {
		r := driver.Renewal{Err: errNoAnswer}
		if i < len(answers) {
			r = answers[i]
		}
		m.isolate(h.current(), func() { m.renewed(h, granted{r.Grant, sent}, r.Err) })
	}
}

// current is the tenure that has the hold now.
func (h *hold) current() *Tenure {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	return h.tenure
}

// requests gives those of holds that are not over, what their renewals ask for, and the shortest of their leases.
func (m *Manager) requests(holds []*hold) (live []*hold, batch []driver.Hold, shortest time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	shortest = forever
	for _, h := range holds {
		if h.state != over {
			live = append(live, h)
			batch = append(batch, driver.Hold{Key: h.by.spec.Key, Request: h.request()})
			shortest = min(shortest, h.span())
		}
	}
	return live, batch, shortest
}

// errNoAnswer is a hold that a batch left out; it is renewed again.
var errNoAnswer = errors.New("the store answered for fewer holds than it was asked")

func (m *Manager) renewOne(h *hold) {
	m.mu.Lock()
	isOver, r, span := h.state == over, h.request(), h.span()
	m.mu.Unlock()
	if isOver {
		return
	}
	ctx := driver.NewBound(context.Background(), span/3)
	defer ctx.Stop()
	g, err := m.renew(ctx, h, r)
	m.isolate(h.current(), func() { m.renewed(h, g, err) })
}

// renew makes the request r for h. renewed takes in the answer.
func (m *Manager) renew(ctx context.Context, h *hold, r driver.Request) (granted, error) {
	sent := m.clock.Now()
	g, err := m.store.Renew(ctx, h.by.spec.Key, r)
	return granted{g, sent}, err
}

// request is what a renewal asks for. Manager.mu is held.
func (h *hold) request() driver.Request {
	return driver.Request{ID: h.by.id, TTL: h.by.spec.Lease, Fair: h.by.spec.Fair && h.share.Mode == driver.Exclusive, Share: h.share}
}

// renewed takes in what the store answered.
func (m *Manager) renewed(h *hold, g granted, err error) {
	switch {
	case errors.Is(err, driver.ErrNotHeld):
		m.gone(h, errs.ErrLost)
		return
	case err == nil && g.Token != h.stored:
		m.lose(h, nil, errs.Chain(errs.ErrLost, errors.New("the store renewed under another token")))
		return
	}
	now := m.clock.Now()
	m.mu.Lock()
	t := h.tenure
	h.renewing = false
	if d := g.deadline(m.clock); err == nil && !h.by.spec.NoRenew && d.Mono > h.deadline.Load().Mono {
		// A renewal never shortens: of two deadlines the later one holds. Shrink asks also for what is not renewed.
		h.deadline.Store(d)
		h.ttl = g.TTL
	}
	retry := now.Add(min(max(h.span()/20, 5*time.Millisecond), time.Second))
	if err != nil {
		h.renewAt = retry
	} else {
		h.renewAt = g.since(m.clock).Add(min(g.TTL, h.by.spec.Lease) / 3)
		if h.renewAt.Mono < retry.Mono { // a session's keepalive may be of long ago
			h.renewAt = retry
		}
	}
	m.mu.Unlock()
	m.sched.update(h)
	t.tellRenewed(g, err, now)
}
