package envoy

import (
	"context"
	"sync"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

const (
	// maxHits is the most that one descriptor adds, which is above every limit.
	maxHits = driver.MaxRate / 128
	// maxRequests is the most that a limit has: 4,294,967,295 where an int has 64 bits.
	maxRequests = min(1<<32-1, maxHits-1)
	// maxSum is the most that one call of the store adds. So where the counter is full, it is above every limit before
	// each of them.
	maxSum = driver.MaxRate / 2
	// callTime bounds a request, and a call of the store that several share.
	callTime = 10 * time.Second
)

// charger is what a tally needs of a coord.Client.
type charger interface {
	Charge(ctx context.Context, key string, limit coord.Limit, n int) (coord.Result, error)
}

// account is a counter: of a key, in windows of a period.
type account struct {
	key string
	per time.Duration
}

// tally adds to counters as envoyproxy/ratelimit does: whatever their limit, and also what is then denied. Additions to
// one counter that arrive while a call on it is under way share the next call, in order. So it makes no difference to
// what each of them sees. It is safe for concurrent use.
type tally struct {
	store charger

	mu     sync.Mutex
	queues map[account][]*addition // an account is there while a call on it is under way
}

// addition is one descriptor's hits.
type addition struct {
	ctx  context.Context
	hits int
	done chan struct{} // closed when what follows is there

	after int           // the counter, with these hits
	reset time.Duration // until the window ends; 0: nothing is counted yet
	err   error
}

func newTally(store charger) *tally {
	return &tally{store: store, queues: make(map[account][]*addition)}
}

// add begins to add. Additions to one account count in the order of the calls of add. If no call on the account is
// under way, first is true, and the caller has to call lead or run.
func (t *tally) add(ctx context.Context, to account, hits uint64) (a *addition, first bool) {
	a = &addition{ctx: ctx, hits: int(min(hits, maxHits)), done: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	queue, busy := t.queues[to]
	t.queues[to] = append(queue, a)
	return a, !busy
}

// wait returns when the addition is there. If ctx ends before, it may be made or not.
func (a *addition) wait(ctx context.Context) error {
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lead makes a call for one who is alone here, under its context, and each other call beside it: so nobody waits for
// longer than itself would. The caller waits for its own addition.
func (t *tally) lead(to account) {
	batch := t.next(to)
	if len(batch) == 1 {
		t.count(to, batch)
		batch = t.next(to)
	}
	if batch != nil {
		go func() {
			t.count(to, batch)
			t.run(to)
		}()
	}
}

// run makes calls until nothing waits.
func (t *tally) run(to account) {
	for batch := t.next(to); batch != nil; batch = t.next(to) {
		t.count(to, batch)
	}
}

// next takes those who wait, in order: all of them, as far as one call can add them. If it took a number of them, a
// counter that is asked for more often than that would answer all too late, and so nobody.
func (t *tally) next(to account) (batch []*addition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	queue := t.queues[to]
	if len(queue) == 0 {
		delete(t.queues, to)
		return nil
	}
	n, sum := 0, 0
	for ; n < len(queue) && sum+queue[n].hits <= maxSum; n++ {
		sum += queue[n].hits
	}
	t.queues[to] = queue[n:]
	return queue[:n]
}

// count makes one call for a batch. The limit of the call is above all others: so what it leaves says what is counted.
func (t *tally) count(to account, batch []*addition) {
	ctx, cancel := together(batch)
	defer cancel()
	sum := 0
	for _, a := range batch {
		sum += a.hits
	}
	limit := coord.Limit{Rate: driver.MaxRate, Per: to.per, Algorithm: coord.FixedWindow}
	result, err := t.store.Charge(ctx, to.key, limit, sum)
	after := driver.MaxRate - result.Remaining
	for i := len(batch) - 1; i >= 0; i-- {
		a := batch[i]
		a.after, a.reset, a.err = after, result.ResetAfter, err
		after -= a.hits
		close(a.done)
	}
}

// together is the context of a call: that of one who is alone, or it lasts as long as the last of those who wait, at most
// callTime.
func together(batch []*addition) (context.Context, context.CancelFunc) {
	if len(batch) == 1 {
		return batch[0].ctx, func() {}
	}
	end := time.Now()
	most := end.Add(callTime)
	for _, a := range batch {
		deadline, ok := a.ctx.Deadline()
		if !ok || deadline.After(most) {
			deadline = most
		}
		if deadline.After(end) {
			end = deadline
		}
	}
	return context.WithDeadline(context.WithoutCancel(batch[0].ctx), end)
}
