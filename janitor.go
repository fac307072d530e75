package coord

import (
	"container/heap"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/partition"
)

// janitor removes from the store what nobody holds: the lease that a call with
// a lost reply may have taken, the hold that was lost, the waiter that was
// cancelled. It repeats Unlock until no call of the id can have effect any
// more, so a caller never waits for cleaning up, and an orphan is never
// renewed. An id that it was given is burnt: nothing else uses it again.
type janitor struct {
	c       *Client
	mu      sync.Mutex
	lanes   map[string]*choreLane // by part of the store: those with something to do
	workers int                   // of all lanes
	idle    chan struct{}         // closed when no worker is left; made by drain
	timer   *time.Timer
	stopped bool
}

// choreLane is what there is to do on one part of the store. It has workers of its own, so
// that a part that hangs delays no other.
type choreLane struct {
	tasks   choreHeap // those that nobody is at
	workers int
}

// chore is one id to be removed. Its times are on the monotonic clock of the
// client: a wall clock that is set must not end it early.
type chore struct {
	key, id string
	until   time.Duration // no call of the id has effect after it
	known   bool          // the id is known to hold
	unknown int           // calls that may have taken, or may yet take, a lease
	at      time.Duration // when the next attempt is due
	held    bool          // MinHold: not before at, not even when the client closes

	giveUp time.Duration // the store has not answered for too long
	pause  time.Duration
}

const (
	janitorWidth = 8 // workers of a lane
	janitorTry   = time.Second
	minChore     = 10 * time.Millisecond
	maxChore     = time.Second
	// never is a time that does not come.
	never = time.Duration(math.MaxInt64)
	// choreGrace is how long after until the janitor still asks a store that
	// does not answer: one that was frozen applies old calls when it resumes.
	choreGrace = time.Minute
)

func (j *janitor) init(c *Client) { j.c, j.lanes = c, make(map[string]*choreLane) }

// put starts a chore.
func (j *janitor) put(t *chore) {
	t.pause = minChore
	t.giveUp = max(t.until, t.at) + choreGrace
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stopped {
		return // the lease bounds what is left
	}
	j.add(t)
	j.plan()
}

// add puts t into the lane of its part. janitor.mu is held.
func (j *janitor) add(t *chore) {
	part := j.c.locks.parts.Of(t.key)
	lane := j.lanes[part]
	if lane == nil {
		lane = &choreLane{}
		j.lanes[part] = lane
	}
	heap.Push(&lane.tasks, t)
}

// plan starts workers for what is due, and sets the timer for what is not. A client can
// lose a hundred thousand holds in one moment: what there is to do is looked at in order,
// and never as a whole. janitor.mu is held.
func (j *janitor) plan() {
	now := j.c.clock.Now().Mono
	next := never
	for part, lane := range j.lanes {
		for len(lane.tasks) > 0 && lane.tasks[0].at <= now && lane.workers < janitorWidth {
			lane.workers++
			j.workers++
			j.c.bg.Add(1)
			go j.work(lane, heap.Pop(&lane.tasks).(*chore))
		}
		switch {
		case len(lane.tasks) == 0 && lane.workers == 0:
			delete(j.lanes, part)
		case len(lane.tasks) > 0 && lane.workers < janitorWidth: // else whoever is done plans on
			next = min(next, lane.tasks[0].at)
		}
	}
	if next == never {
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

// work does one chore once, and then plans on.
func (j *janitor) work(lane *choreLane, t *chore) {
	defer j.c.bg.Done()
	ctx := driver.NewBound(context.Background(), janitorTry)
	err := j.unlock(ctx, t)
	ctx.Stop()
	now := j.c.clock.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	lane.workers--
	j.workers--
	if j.workers == 0 && j.idle != nil {
		close(j.idle)
	}
	if j.stopped {
		return
	}
	if !t.finished(err, now.Mono) {
		t.at = now.Mono + t.pause
		t.pause = min(2*t.pause, maxChore)
		j.add(t)
	}
	j.plan()
}

func (j *janitor) unlock(ctx context.Context, t *chore) (err error) {
	defer j.c.panics.Catch("what an attempt left behind was removed", &err)
	return j.c.locks.Unlock(ctx, t.key, t.id)
}

// finished reports whether nothing of the id can be left at the store.
func (t *chore) finished(err error, now time.Duration) bool {
	removed, absent := err == nil, errors.Is(err, ErrNotHeld)
	switch {
	case removed && t.known:
		t.known = false
	case removed:
		t.unknown-- // it was one of those
	case absent:
		t.known = false
	default:
		return now >= t.giveUp
	}
	return t.unknown <= 0 || now >= t.until
}

// drain ends what is under way, does every other chore a last time, as far as
// ctx allows, and stops.
func (j *janitor) drain(ctx context.Context) {
	j.mu.Lock()
	j.stopped = true
	if j.timer != nil {
		j.timer.Stop()
	}
	var tasks []*chore
	for _, lane := range j.lanes {
		tasks = append(tasks, slices.DeleteFunc(lane.tasks, func(t *chore) bool { return t.held })...)
		lane.tasks = nil
	}
	idle := make(chan struct{})
	if j.workers == 0 {
		close(idle)
	} else {
		j.idle = idle
	}
	j.mu.Unlock()
	partition.ForEach(&j.c.locks.parts, tasks, func(t *chore) string { return t.key }, func(t *chore) {
		if ctx.Err() == nil {
			// What is not removed now is left to its lease.
			_ = j.unlock(ctx, t)
		}
	})
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// choreHeap orders chores by when they are due.
type choreHeap []*chore

func (q choreHeap) Len() int           { return len(q) }
func (q choreHeap) Less(i, j int) bool { return q[i].at < q[j].at }
func (q choreHeap) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

func (q *choreHeap) Push(x any) { *q = append(*q, x.(*chore)) }

func (q *choreHeap) Pop() any {
	old := *q
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return t
}
