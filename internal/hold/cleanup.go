package hold

import (
	"container/heap"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/partition"
	"github.com/coordgo/coord/observe"
)

// janitor removes from the store what nobody holds: the lease that a call with
// a lost reply may have taken, the hold that was lost, the waiter that was
// cancelled. It repeats Unlock until no call of the id can have effect any
// more, so a caller never waits for cleaning up, and an orphan is never
// renewed. An id that it was given is burnt: nothing else uses it again.
type janitor struct {
	store  unlocker
	partOf *partition.Parts
	clock  *clock.Clock
	bg     *sync.WaitGroup // counts its goroutines

	mu      sync.Mutex
	parts   map[string]*partTasks // by part of the store: those with something to do; made with the first
	workers int                   // of all parts
	idle    chan struct{}         // closed when no worker is left; made by drain
	timer   *time.Timer
	stopped bool
}

// unlocker is what the janitor needs of a store.
type unlocker interface {
	Unlock(ctx context.Context, key, id string) error
}

// cleanUp has the janitor remove the hold from the store: now, or when MinHold
// is over, or when a hold that the wall clock has ended is over by the monotonic clock too. Somebody outside this
// process, who has no Done, may have been told of its deadline, and a wall clock can be set.
func (m *Manager) cleanUp(h *hold) {
	m.mu.Lock()
	end := h.deadline.Load().Add(margin(h.ttl)).Mono // of the lease
	var over time.Duration
	if t := h.tenure; t.loss == observe.LossExpired || t.loss == observe.LossMaxHold {
		over = t.lastEnd.Mono
	}
	m.mu.Unlock()
	t := &task{key: h.by.spec.Key, id: h.by.id, until: max(end, h.by.unknownUntil.Mono), known: true, unknown: h.by.unknown, passOn: h.by.spec.PassOn}
	t.next = max(m.clock.Mono(), over)
	if d := h.minHoldLeft(); d > 0 {
		t.next, t.held = max(t.next, m.clock.Mono()+d), true
	}
	m.janitor.put(t)
}

// cleanUpUnknown removes leases that calls of this id may have created whose outcome was never known.
func (m *Manager) cleanUpUnknown(h *hold) {
	if t := h.by.leftBehind(); t != nil && t.until > m.clock.Now().Mono {
		m.janitor.put(t)
	}
}

// partTasks is what there is to do on one part of the store. It has workers of its own, so
// that a part that hangs delays no other.
type partTasks struct {
	tasks   alarms[*task] // those that nobody is at
	workers int
}

// task is one id to be removed. Its times are on the monotonic clock of the
// client: a wall clock that is set must not end it early.
type task struct {
	key, id string
	until   time.Duration // no call of the id has effect after it
	known   bool          // the id is known to hold
	unknown int           // calls that may have taken, or may yet take, a lease
	alarm                 // the next attempt
	held    bool          // MinHold: not before the alarm, not even when the client closes

	passOn func(context.Context) error // of a Place: what to do where it is not found, for a signal may have ended it
	passed bool                        // it was done once

	giveUp time.Duration // the store has not answered for too long
	pause  time.Duration
}

const (
	janitorWidth = 8 // workers of a part
	janitorTry   = time.Second
	minTaskPause = 10 * time.Millisecond
	maxTaskPause = time.Second
	// forever is a pause that ends by a wake-up alone.
	forever = time.Duration(math.MaxInt64)
	// taskGrace is how long after until the janitor still asks a store that
	// does not answer: one that was frozen applies old calls when it resumes.
	taskGrace = time.Minute
)

// put starts a task.
func (j *janitor) put(t *task) {
	t.pause = minTaskPause
	t.giveUp = max(t.until, t.next) + taskGrace
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stopped {
		return // the lease bounds what is left
	}
	j.add(t)
	j.plan()
}

// add puts t to the tasks of its part. janitor.mu is held.
func (j *janitor) add(t *task) {
	name := j.partOf.Of(t.key)
	part := j.parts[name]
	if part == nil {
		if j.parts == nil {
			j.parts = make(map[string]*partTasks)
		}
		part = &partTasks{}
		j.parts[name] = part
	}
	heap.Push(&part.tasks, t)
}

// plan starts workers for what is due, and sets the timer for what is not. A client can
// lose a hundred thousand holds in one moment: what there is to do is looked at in order,
// and never as a whole. janitor.mu is held.
func (j *janitor) plan() {
	now := j.clock.Now().Mono
	next := forever
	for name, part := range j.parts {
		for len(part.tasks) > 0 && part.tasks[0].next <= now && part.workers < janitorWidth {
			part.workers++
			j.workers++
			j.bg.Add(1)
			go j.work(part, heap.Pop(&part.tasks).(*task))
		}
		switch {
		case len(part.tasks) == 0 && part.workers == 0:
			delete(j.parts, name)
		case len(part.tasks) > 0 && part.workers < janitorWidth: // else whoever is done plans on
			next = min(next, part.tasks[0].next)
		}
	}
	if next == forever {
		return
	}
	wait := next - now
	if j.timer == nil {
		j.timer = time.AfterFunc(wait, j.wake)
	} else {
		j.timer.Reset(wait)
	}
}

func (j *janitor) wake() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.stopped {
		j.plan()
	}
}

// work does one task once, and then plans on.
func (j *janitor) work(part *partTasks, t *task) {
	defer j.bg.Done()
	ctx := driver.NewBound(context.Background(), janitorTry)
	asked := j.clock.Mono()
	err := j.unlock(ctx, t, t.unknown <= 0 || asked >= t.until)
	ctx.Stop()
	j.mu.Lock()
	defer j.mu.Unlock()
	part.workers--
	j.workers--
	if j.workers == 0 && j.idle != nil {
		close(j.idle)
	}
	if j.stopped {
		return
	}
	if !t.finished(err, asked) {
		t.next = j.clock.Mono() + t.pause
		t.pause = min(2*t.pause, maxTaskPause)
		j.add(t)
	}
	j.plan()
}

// unlock removes the id. Where a place is not found, it passes the signal on that may have ended it: the first time, and the last
// time, for a late call may have taken the place in between, and met a signal.
func (j *janitor) unlock(ctx context.Context, t *task, last bool) error {
	err := j.store.Unlock(ctx, t.key, t.id)
	if t.passOn == nil || !errors.Is(err, driver.ErrNotHeld) || t.passed && !last {
		return err
	}
	bound := driver.NewBound(context.Background(), janitorTry)
	defer bound.Stop()
	if failed := t.passOn(bound); failed != nil {
		return failed
	}
	t.passed = true
	return err
}

// finished reports whether nothing of the id can be left at the store, which was asked at asked.
func (t *task) finished(err error, asked time.Duration) bool {
	removed, absent := err == nil, errors.Is(err, driver.ErrNotHeld)
	switch {
	case removed && t.known:
		t.known = false
	case removed:
		t.unknown-- // it was one of those
	case absent:
		t.known = false
	default:
		return asked >= t.giveUp
	}
	return t.unknown <= 0 || asked >= t.until
}

// size counts the ids that are removed, or are about to be.
func (j *janitor) size() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.workers
	for _, p := range j.parts {
		n += len(p.tasks)
	}
	return n
}

// drain ends what is under way, does every other task a last time, as far as
// ctx allows, and stops.
func (j *janitor) drain(ctx context.Context) {
	j.mu.Lock()
	j.stopped = true
	if j.timer != nil {
		j.timer.Stop()
	}
	var tasks []*task
	for _, part := range j.parts {
		tasks = append(tasks, slices.DeleteFunc(part.tasks, func(t *task) bool { return t.held })...)
		part.tasks = nil
	}
	idle := make(chan struct{})
	if j.workers == 0 {
		close(idle)
	} else {
		j.idle = idle
	}
	j.mu.Unlock()
	partition.ForEach(j.partOf, tasks, func(t *task) string { return t.key }, func(t *task) {
		if ctx.Err() == nil {
			// What is not removed now is left to its lease.
			_ = j.unlock(ctx, t, true)
		}
	})
	select {
	case <-idle:
	case <-ctx.Done():
	}
}
