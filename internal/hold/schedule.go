package hold

import (
	"container/heap"
	"sync"
	"time"

	"github.com/coordgo/coord/internal/clock"
)

// scheduler says when something is due for a hold. Ten thousand holds cost one timer and a heap, and what is due at
// about the same time is due together: no goroutine waits for any one of them. It does not know what is due.
type scheduler struct {
	clock *clock.Clock
	bg    *sync.WaitGroup // counts its goroutines
	// serve is given what was due at now, and says what of it is looked after further, and sets their alarms. It is called under
	// the mutex, and the rest of the work is a function, which is called after that.
	serve func(now clock.Instant, due []*hold) (further []*hold, rest func())

	mu      sync.Mutex
	heap    alarms[*hold]
	timer   *time.Timer
	armed   time.Duration // when the timer will fire, on the client's clock
	apart   time.Duration // how far the wall clock was ahead of the monotonic one
	stopped bool
}

// alarm is when the scheduler or the janitor looks, on the client's monotonic clock. It is guarded by their mutex.
type alarm struct {
	next      time.Duration
	slack     time.Duration // how much earlier the scheduler may
	heapIndex int           // -1: not looked after
}

// timed is what has an alarm.
type timed interface{ at() *alarm }

func (a *alarm) at() *alarm { return a }

// The scheduler's timer goes by the monotonic clock, which stops while the
// machine sleeps. As long as there is something to look after it looks at the wall clock too, once
// in clockLook, and at everything when that has moved by more than clockStep.
const (
	clockLook = time.Second
	clockStep = 5 * time.Millisecond // the least margin
)

func (s *scheduler) init(c *clock.Clock, bg *sync.WaitGroup, serve func(clock.Instant, []*hold) ([]*hold, func())) {
	s.clock, s.bg, s.serve = c, bg, serve
	now := c.Now()
	s.apart = time.Duration(now.Wall) - now.Mono
}

// add starts to look after h, unless it is over.
func (s *scheduler) add(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next, slack, ok := h.lookAt(); ok && !s.stopped {
		h.next, h.slack = next, slack
		heap.Push(&s.heap, h)
		s.arm()
	}
}

// remove stops looking after h. The timer stays as it is: an early look costs
// nothing.
func (s *scheduler) remove(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := h.at(); a.heapIndex >= 0 {
		heap.Remove(&s.heap, a.heapIndex)
	}
}

// update looks at h again when it is next due.
func (s *scheduler) update(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next, slack, ok := h.lookAt(); ok && h.heapIndex >= 0 && !s.stopped {
		h.next, h.slack = next, slack
		heap.Fix(&s.heap, h.heapIndex)
		s.arm()
	}
}

// arm sets the timer for the first of the heap, unless it fires before that
// anyway. scheduler.mu is held.
func (s *scheduler) arm() {
	if len(s.heap) == 0 || s.stopped {
		return
	}
	first := s.heap[0].at().next
	if s.timer != nil && s.armed != 0 && s.armed <= first {
		return
	}
	now := s.clock.Now()
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

// look has what is due served, or nearly so.
func (s *scheduler) look() {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	s.bg.Add(1)
	defer s.bg.Done()
	s.armed = 0
	now := s.clock.Now()
	s.watchClocks(now)
	rest := s.collect(now)
	s.arm()
	s.mu.Unlock()
	if rest != nil {
		rest()
	}
}

// collect takes from the heap what is due, and has it served. scheduler.mu is held.
func (s *scheduler) collect(now clock.Instant) (rest func()) {
	var due []*hold
	for len(s.heap) > 0 {
		if a := s.heap[0].at(); a.next-a.slack > now.Mono {
			break
		}
		due = append(due, heap.Pop(&s.heap).(*hold))
	}
	if len(due) == 0 {
		return nil
	}
	further, rest := s.serve(now, due)
	for _, h := range further {
		heap.Push(&s.heap, h)
	}
	return rest
}

// watchClocks makes everything due when the clocks have moved apart.
// scheduler.mu is held.
func (s *scheduler) watchClocks(now clock.Instant) {
	apart := time.Duration(now.Wall) - now.Mono
	if moved := apart - s.apart; -clockStep < moved && moved < clockStep {
		return
	}
	s.apart = apart
	for _, h := range s.heap {
		h.at().next = now.Mono
	}
	heap.Init(&s.heap)
}

// size counts what is looked after.
func (s *scheduler) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.heap)
}

// alarms is a heap, ordered by when each is due.
type alarms[D timed] []D

func (q alarms[D]) Len() int           { return len(q) }
func (q alarms[D]) Less(i, j int) bool { return q[i].at().next < q[j].at().next }
func (q alarms[D]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at().heapIndex, q[j].at().heapIndex = i, j
}

func (q *alarms[D]) Push(x any) {
	d := x.(D)
	d.at().heapIndex = len(*q)
	*q = append(*q, d)
}

func (q *alarms[D]) Pop() any {
	old := *q
	d := old[len(old)-1]
	var none D
	old[len(old)-1] = none
	*q = old[:len(old)-1]
	d.at().heapIndex = -1
	return d
}
