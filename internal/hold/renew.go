package hold

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/partition"
)

// nextLook is when something is due for h: a renewal, which has some slack, so that it may
// come earlier, to join a batch, or the deadline.
func (h *hold) nextLook() (next, slack time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := h.deadlineOf(h.tenure).Mono
	if h.renews() && h.renewAt.Mono < end {
		return h.renewAt.Mono, h.span() / 32
	}
	return end, 0
}

// span is what renewals are timed by: the lease that was asked for, or the
// shorter one that a store with sessions granted. hold.mu is held.
func (h *hold) span() time.Duration { return min(h.by.spec.Lease, h.ttl) }

func (h *hold) spanNow() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.span()
}

// renews reports whether a renewal is to come. hold.mu is held.
func (h *hold) renews() bool {
	if h.by.spec.NoRenew || h.renewing {
		return false
	}
	end := h.tenure.endBy
	return end == clock.Instant{} || h.deadline.Load().Mono < end.Mono
}

// overdue is a tenure that is over, and why.
type overdue struct {
	h     *hold
	t     *tenure
	cause error
	ended bool // by the scheduler: otherwise it has ended, or goes on as another
}

// serve sorts the holds for which something is due into those that are overdue and those to renew, and looks after
// all others, and the latter, further. rest does the work. scheduler.mu is held.
func (m *Manager) serve(now clock.Instant, due []*hold) (further []*hold, rest func()) {
	var lost []overdue
	var renew []*hold
	for _, h := range due {
		h.mu.Lock()
		if cause := h.overdue(h.tenure, now); cause != nil {
			lost = append(lost, overdue{h: h, t: h.tenure, cause: cause})
		} else if h.tenure.err == nil {
			if h.renews() && h.renewAt.Mono-h.slack <= now.Mono {
				h.renewing = true
				renew = append(renew, h)
			}
			further = append(further, h)
		}
		h.mu.Unlock()
	}
	return further, func() {
		if len(renew) > 0 {
			m.bg.Go(func() { m.renewAll(renew) })
		}
		m.endAll(lost)
	}
}

// endAll ends what is lost: all of it is told before anything is cleaned up, so that the
// last of a hundred thousand learns of it as soon as the first. A hold that was handed
// off in the same moment goes on, and is looked at again at once: the clocks are judged again for
// the tenure that has it now.
func (m *Manager) endAll(lost []overdue) {
	for i, l := range lost {
		lost[i].ended = l.h.end(l.t, l.cause, lossOf(l.cause)) != nil
	}
	for _, l := range lost {
		if l.ended {
			m.afterLoss(l.h, l.t)
		}
		m.sched.putBack(l.h)
	}
}

// renewAll renews a batch, in few requests where the store can, and each part of the
// store by itself.
func (m *Manager) renewAll(holds []*hold) {
	// What was unlocked meanwhile is not renewed after that.
	holds = slices.DeleteFunc(holds, func(h *hold) bool { return h.over.Load() })
	if len(holds) == 0 {
		return
	}
	partition.ByPart(&m.store.Parts, holds, holdKey, m.renewPart)
}

// renewPart renews holds on one part of the store, in one request if the store has such.
func (m *Manager) renewPart(holds []*hold) {
	if len(holds) == 1 {
		m.renewOne(holds[0])
		return
	}
	batch := make([]driver.Hold, len(holds))
	shortest := holds[0].spanNow()
	for i, h := range holds {
		batch[i] = driver.Hold{Key: h.by.spec.Key, Request: h.request()}
		shortest = min(shortest, h.spanNow())
	}
	ctx := driver.NewBound(context.Background(), shortest/3)
	defer ctx.Stop()
	sent := m.clock.Now()
	answers, err := m.renewBatch(ctx, batch)
	if answers == nil && err == nil {
		partition.ForEach(&m.store.Parts, holds, holdKey, m.renewOne)
		return
	}
	for i, h := range holds {
		r := driver.Renewal{Err: cmp.Or(err, errNoAnswer)}
		if i < len(answers) {
			r = answers[i]
		}
		m.renewed(h, granted{r.Grant, sent}, r.Err)
	}
}

func (m *Manager) renewBatch(ctx context.Context, batch []driver.Hold) (answers []driver.Renewal, err error) {
	defer m.panics.Catch("holds were renewed", &err)
	return m.store.RenewAll(ctx, batch), nil
}

// errNoAnswer is a hold that a batch left out; it is renewed again.
var errNoAnswer = errors.New("the store answered for fewer holds than it was asked")

func (m *Manager) renewOne(h *hold) {
	if h.over.Load() {
		return
	}
	ctx := driver.NewBound(context.Background(), h.spanNow()/3)
	defer ctx.Stop()
	sent := m.clock.Now()
	g, err := m.renew(ctx, h)
	m.renewed(h, granted{g, sent}, err)
}

func (m *Manager) renew(ctx context.Context, h *hold) (g driver.Grant, err error) {
	defer m.panics.Catch("a hold was renewed", &err)
	return m.store.Renew(ctx, h.by.spec.Key, h.request())
}

func (h *hold) request() driver.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
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
	h.mu.Lock()
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
	h.mu.Unlock()
	m.sched.update(h)
	h.tellRenewed(t, g, err, now)
}
