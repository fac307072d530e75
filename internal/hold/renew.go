package hold

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/partition"
)

// scheduler renews the holds of one client and sees their deadlines. Ten
// thousand holds cost one timer and a heap, and are renewed in batches: no
// goroutine waits for any one of them.
type scheduler struct {
	m       *Manager
	mu      sync.Mutex
	holds   holdHeap
	timer   *time.Timer
	armed   time.Duration // when the timer will fire, on the client's clock
	apart   time.Duration // how far the wall clock was ahead of the monotonic one
	stopped bool
}

// The scheduler's timer goes by the monotonic clock, which stops while the
// machine sleeps. As long as there are holds it looks at the wall clock too, once
// in clockLook, and at every hold when that has moved by more than clockStep.
const (
	clockLook = time.Second
	clockStep = 5 * time.Millisecond // the least margin
)

func (s *scheduler) init(m *Manager) {
	s.m = m
	now := m.clock.Now()
	s.apart = time.Duration(now.Wall) - now.Mono
}

// add starts to look after h.
func (s *scheduler) add(h *hold) {
	h.mu.Lock()
	next, slack := h.nextLook()
	h.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || h.over.Load() { // over is set before remove is called
		return
	}
	h.next, h.slack = next, slack
	heap.Push(&s.holds, h)
	s.arm()
}

// remove stops looking after h. The timer stays as it is: an early look costs
// nothing.
func (s *scheduler) remove(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.heapIndex >= 0 {
		heap.Remove(&s.holds, h.heapIndex)
	}
}

// update looks at h again when it is next due.
func (s *scheduler) update(h *hold) {
	h.mu.Lock()
	next, slack := h.nextLook()
	h.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.heapIndex >= 0 && !s.stopped {
		h.next, h.slack = next, slack
		heap.Fix(&s.holds, h.heapIndex)
		s.arm()
	}
}

// nextLook is when something is due for h. A renewal has some slack: it may
// come earlier, to join a batch. hold.mu is held.
func (h *hold) nextLook() (next, slack time.Duration) {
	end := h.tenure.deadline().Mono
	if h.renews() && h.renewAt.Mono < end {
		return h.renewAt.Mono, h.span() / 32
	}
	return end, 0
}

// span is what renewals are timed by: the lease that was asked for, or the
// shorter one that a store with sessions granted. hold.mu is held.
func (h *hold) span() time.Duration { return min(h.spec.Lease, h.ttl) }

func (h *hold) spanNow() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.span()
}

// renews reports whether a renewal is to come. hold.mu is held.
func (h *hold) renews() bool {
	if h.spec.NoRenew || h.renewing {
		return false
	}
	end := h.tenure.endBy
	return end == clock.Instant{} || h.deadline.Load().Mono < end.Mono
}

// arm sets the timer for the first of the heap, unless it fires before that
// anyway. scheduler.mu is held.
func (s *scheduler) arm() {
	if len(s.holds) == 0 || s.stopped {
		return
	}
	first := s.holds[0].next
	if s.timer != nil && s.armed != 0 && s.armed <= first {
		return
	}
	now := s.m.clock.Now()
	first = min(first, now.Mono+clockLook)
	wait := max(first-now.Mono, 0)
	s.armed = first
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.look)
	} else {
		s.timer.Reset(wait)
	}
}

func (s *scheduler) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// look ends what is overdue and renews what is due, or nearly so.
func (s *scheduler) look() {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	s.m.bg.Add(1)
	defer s.m.bg.Done()
	s.armed = 0
	now := s.m.clock.Now()
	s.watchClocks(now)
	lost, renew := s.collect(now)
	s.arm()
	if len(renew) > 0 {
		s.m.bg.Add(1)
		go func() {
			defer s.m.bg.Done()
			s.m.renewAll(renew)
		}()
	}
	s.mu.Unlock()
	s.endAll(lost)
}

// endAll ends what is lost: all of it is told before anything is cleaned up, so that the
// last of a hundred thousand learns of it as soon as the first. A hold that was handed
// off in the same moment goes on, and is looked at again at once: the clocks are judged anew for
// the tenure that has it now.
func (s *scheduler) endAll(lost []overdue) {
	for i, l := range lost {
		lost[i].ended = l.t.h.end(l.t, l.cause, lossOf(l.cause)) != nil
	}
	for _, l := range lost {
		if l.ended {
			l.t.h.afterLoss(l.t)
		}
		s.putBack(l.t.h)
	}
}

// putBack looks after h again, which collect has taken out, unless it is over.
func (s *scheduler) putBack(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || h.over.Load() || h.heapIndex >= 0 {
		return
	}
	h.next, h.slack = s.m.clock.Now().Mono, 0
	heap.Push(&s.holds, h)
	s.arm()
}

// watchClocks makes every hold due when the clocks have moved apart.
// scheduler.mu is held.
func (s *scheduler) watchClocks(now clock.Instant) {
	apart := time.Duration(now.Wall) - now.Mono
	if moved := apart - s.apart; -clockStep < moved && moved < clockStep {
		return
	}
	s.apart = apart
	for _, h := range s.holds {
		h.next = now.Mono
	}
	heap.Init(&s.holds)
}

// overdue is a tenure that is over, and why.
type overdue struct {
	t     *Tenure
	cause error
	ended bool // by the scheduler: otherwise it has ended, or goes on as another
}

// collect takes from the heap what is due. scheduler.mu is held.
func (s *scheduler) collect(now clock.Instant) (lost []overdue, renew []*hold) {
	var later []*hold
	for len(s.holds) > 0 && s.holds[0].next-s.holds[0].slack <= now.Mono {
		h := heap.Pop(&s.holds).(*hold)
		h.mu.Lock()
		if cause := h.tenure.overdue(now); cause != nil {
			lost = append(lost, overdue{t: h.tenure, cause: cause})
		} else if h.tenure.err == nil {
			if h.renews() && h.renewAt.Mono-h.slack <= now.Mono {
				h.renewing = true
				renew = append(renew, h)
			}
			h.next, h.slack = h.nextLook()
			later = append(later, h)
		}
		h.mu.Unlock()
	}
	for _, h := range later {
		heap.Push(&s.holds, h)
	}
	return lost, renew
}

// renewAll renews a batch, in few requests where the store can, and each part of the
// store by itself.
func (m *Manager) renewAll(holds []*hold) {
	// What was unlocked meanwhile is not renewed after that.
	holds = slices.DeleteFunc(holds, func(h *hold) bool { return h.over.Load() })
	if len(holds) == 0 {
		return
	}
	if m.store.Batch == nil {
		partition.ForEach(&m.store.Parts, holds, holdKey, m.renewOne)
		return
	}
	partition.ByPart(&m.store.Parts, holds, holdKey, m.renewPart)
}

// renewPart renews holds on one part of the store, in one request.
func (m *Manager) renewPart(holds []*hold) {
	if len(holds) == 1 {
		m.renewOne(holds[0])
		return
	}
	batch := make([]driver.Hold, len(holds))
	shortest := holds[0].spanNow()
	for i, h := range holds {
		batch[i] = driver.Hold{Key: h.spec.Key, Request: h.request()}
		shortest = min(shortest, h.spanNow())
	}
	ctx := driver.NewBound(context.Background(), shortest/3)
	defer ctx.Stop()
	sent := m.clock.Now()
	answers, err := m.renewBatch(ctx, batch)
	for i, h := range holds {
		r := driver.Renewal{Err: err}
		if i < len(answers) {
			r = answers[i]
		}
		h.renewed(granted{r.Grant, sent}, r.Err)
	}
}

func (m *Manager) renewBatch(ctx context.Context, batch []driver.Hold) (answers []driver.Renewal, err error) {
	err = errNoAnswer
	defer m.panics.Catch("holds were renewed", &err)
	return m.store.Batch.RenewAll(ctx, batch), err
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
	h.renewed(granted{g, sent}, err)
}

func (m *Manager) renew(ctx context.Context, h *hold) (g driver.Grant, err error) {
	defer m.panics.Catch("a hold was renewed", &err)
	return m.store.Renew(ctx, h.spec.Key, h.request())
}

func (h *hold) request() driver.Request {
	return driver.Request{ID: h.by.id, TTL: h.spec.Lease, Fair: h.spec.Fair}
}

// renewed takes in what the store answered.
func (h *hold) renewed(g granted, err error) {
	switch {
	case errors.Is(err, driver.ErrNotHeld):
		h.gone(errs.ErrLost)
		return
	case err == nil && g.Token != h.stored:
		h.lose(nil, errs.Chain(errs.ErrLost, errors.New("the store renewed under another token")))
		return
	}
	now := h.m.clock.Now()
	h.mu.Lock()
	t := h.tenure
	h.renewing = false
	if d := h.m.deadlineOf(g); err == nil && d.Mono > h.deadline.Load().Mono {
		// A renewal never shortens: of two deadlines the later one holds.
		h.deadline.Store(d)
		h.ttl = g.TTL
	}
	retry := now.Add(min(max(h.span()/20, 5*time.Millisecond), time.Second))
	if err != nil {
		h.renewAt = retry
	} else {
		h.renewAt = h.m.since(g).Add(min(g.TTL, h.spec.Lease) / 3)
		if h.renewAt.Mono < retry.Mono { // a session's keepalive may be of long ago
			h.renewAt = retry
		}
	}
	h.mu.Unlock()
	h.m.sched.update(h)
	t.events.renewed(t, g, err, now)
}

// holdHeap orders holds by when they are due.
type holdHeap []*hold

func (q holdHeap) Len() int           { return len(q) }
func (q holdHeap) Less(i, j int) bool { return q[i].next < q[j].next }
func (q holdHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].heapIndex, q[j].heapIndex = i, j
}

func (q *holdHeap) Push(x any) {
	h := x.(*hold)
	h.heapIndex = len(*q)
	*q = append(*q, h)
}

func (q *holdHeap) Pop() any {
	old := *q
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	h.heapIndex = -1
	return h
}
