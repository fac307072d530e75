package etcd

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/coordgo/coord/driver"
)

// batcher sends steps of different places in one request, once so many requests are under way that more would only wait at
// the server, for which a request is more work than a step. Up to then, each step is a request of its own. Steps that
// arrive while a shared request is under way are sent together in the next one.
type batcher struct {
	mu     sync.Mutex
	out    int    // requests under way
	shared int    // those of several steps among them
	next   *batch // of the steps that wait; nil: none does
	wait   time.Duration
}

const (
	// maxOut is how many requests are under way before steps wait for each other.
	maxOut = 4
	// maxBytes is how much they put together. A server takes 1.5 MiB as a rule, and a client sends 2.
	maxBytes = 512 << 10
	// maxWait is how long a step waits at most for a request to come back: one may hang on a
	// member that does not answer.
	maxWait = 10 * time.Millisecond
)

// batch is steps that are to share a request. batcher.mu guards it until it is done.
type batch struct {
	steps   []*batchedStep
	places  map[string]struct{}
	bytes   int // that they put
	timer   *time.Timer
	callers int // callers that wait for it
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // once it is done
}

// batchedStep is a step in a batch.
type batchedStep struct {
	step
	answer
	left bool // nobody waits for it
}

// errAlone: the store has refused the request that steps shared, and so done none of them. Each is to
// be made alone, for all but one may be good.
var errAlone = errors.New("etcd: one of several steps was refused")

// perform makes a step, by a request of its own or together with others.
func (b *backend) perform(ctx context.Context, s step) (answer, error) {
	c := &b.batcher
	c.mu.Lock()
	if c.free() {
		c.out++
		c.mu.Unlock()
		defer b.answered(1)
		return b.send(ctx, s)
	}
	bt, r := b.join(s)
	c.mu.Unlock()
	if bt == nil {
		return b.send(ctx, s)
	}
	select {
	case <-bt.done:
	case <-ctx.Done():
		return answer{}, c.leave(ctx, bt, r)
	}
	if errors.Is(bt.err, errAlone) {
		return b.send(ctx, s)
	}
	return r.answer, bt.err
}

// join puts a step into the batch that goes next; nil if there is one of the same place in it: steps of
// a batch do not see each other. batcher.mu is held.
func (b *backend) join(s step) (*batch, *batchedStep) {
	c := &b.batcher
	bytes := s.bytes()
	if c.next != nil && c.next.bytes+bytes > maxBytes {
		b.sendNext()
	}
	bt := c.next
	if bt == nil {
		bt = &batch{places: make(map[string]struct{}), done: make(chan struct{})}
		bt.timer = time.AfterFunc(c.wait, func() { b.sendLate(bt) })
		c.next = bt
	}
	if _, there := bt.places[s.place]; there {
		return nil, nil
	}
	r := &batchedStep{step: s}
	bt.steps, bt.places[s.place] = append(bt.steps, r), struct{}{}
	bt.callers++
	bt.bytes += bytes
	if len(bt.steps) >= b.ops.most() {
		b.sendNext()
	}
	return bt, r
}

// leave ends the wait for a step whose caller has gone.
func (c *batcher) leave(ctx context.Context, bt *batch, r *batchedStep) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.left = true
	if bt.callers--; bt.callers == 0 && bt.cancel != nil {
		bt.cancel()
	}
	if c.next == bt {
		delete(bt.places, r.place)
		return driver.NotSent(ended(ctx))
	}
	return ended(ctx)
}

// free reports whether a request is to be sent now. batcher.mu is held.
func (c *batcher) free() bool { return c.out < maxOut && c.shared == 0 }

// answered takes in that a request of n steps has come back.
func (b *backend) answered(n int) {
	c := &b.batcher
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out--
	if n > 1 {
		c.shared--
	}
	if c.next != nil && c.free() {
		b.sendNext()
	}
}

// sendLate sends a batch that has waited too long.
func (b *backend) sendLate(bt *batch) {
	c := &b.batcher
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == bt {
		b.sendNext()
	}
}

// sendNext sends the next batch. batcher.mu is held.
func (b *backend) sendNext() {
	c := &b.batcher
	bt := c.next
	c.next = nil
	bt.timer.Stop()
	var steps []*batchedStep
	for _, r := range bt.steps {
		if !r.left {
			steps = append(steps, r)
		}
	}
	if len(steps) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(b.life, b.making)
	bt.cancel = cancel
	c.out++
	if len(steps) > 1 {
		c.shared++
	}
	if !b.start(func() {
		defer cancel()
		bt.err = b.sendBatch(ctx, steps)
		close(bt.done)
		b.answered(len(steps))
	}) {
		cancel() // the waits end with the backend
	}
}

// start runs fn in a goroutine that Close waits for; false after Close.
func (b *backend) start(fn func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.life.Err() != nil {
		return false
	}
	b.bg.Go(fn)
	return true
}

// sendBatch makes the request of a batch.
func (b *backend) sendBatch(ctx context.Context, batched []*batchedStep) (err error) {
	if len(batched) == 1 {
		batched[0].answer, err = b.send(ctx, batched[0].step)
		return err
	}
	steps := make([]step, len(batched))
	for i, r := range batched {
		steps[i] = r.step
	}
	answers, err := b.sendAll(ctx, steps)
	var refusal rpctypes.EtcdError
	switch {
	case err == nil:
		for i, r := range batched {
			r.answer = answers[i]
		}
		return nil
	case !errors.As(err, &refusal) || !driver.Definite(err):
		return err
	}
	b.ops.tooMany(err, len(steps))
	return errAlone
}
