package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/coordgo/coord/driver"
)

// convoy lets steps of different places share requests once so many requests are under way that
// more would only stand in line at the server, for which a request is more work than a step.
// Up to then, each step is a request of its own. While one that is shared is under way, more steps
// gather for the next: the more come, the more share a request.
type convoy struct {
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

// batch is steps that are to share a request. convoy.mu guards it until it is done.
type batch struct {
	rides  []*ride
	places map[string]struct{}
	bytes  int // that they put
	timer  *time.Timer
	stay   int // callers that wait for it
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once it is done
}

// ride is a step in a batch.
type ride struct {
	step
	answer
	left bool // nobody waits for it
}

// errAlone: the store has refused the request that steps shared, and so done none of them. Each is to
// be made alone, for all but one may be good.
var errAlone = errors.New("etcd: one of several steps was refused")

// perform makes a step, by a request of its own or together with others.
func (b *backend) perform(ctx context.Context, s step) (answer, error) {
	c := &b.convoy
	c.mu.Lock()
	if c.clear() {
		c.out++
		c.mu.Unlock()
		defer b.landed(1)
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
// a batch do not see each other. convoy.mu is held.
func (b *backend) join(s step) (*batch, *ride) {
	c := &b.convoy
	bytes := s.bytes()
	if c.next != nil && c.next.bytes+bytes > maxBytes {
		b.launch()
	}
	bt := c.next
	if bt == nil {
		bt = &batch{places: make(map[string]struct{}), done: make(chan struct{})}
		bt.timer = time.AfterFunc(c.wait, func() { b.depart(bt) })
		c.next = bt
	}
	if _, there := bt.places[s.place]; there {
		return nil, nil
	}
	r := &ride{step: s}
	bt.rides, bt.places[s.place] = append(bt.rides, r), struct{}{}
	bt.stay++
	bt.bytes += bytes
	if len(bt.rides) >= b.ops.most() {
		b.launch()
	}
	return bt, r
}

// leave ends the wait for a step whose caller has gone.
func (c *convoy) leave(ctx context.Context, bt *batch, r *ride) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.left = true
	if bt.stay--; bt.stay == 0 && bt.cancel != nil {
		bt.cancel()
	}
	if c.next == bt {
		delete(bt.places, r.place)
		return fmt.Errorf("%w: %w", driver.ErrNotSent, ended(ctx))
	}
	return ended(ctx)
}

// clear reports whether a request is to be sent now. convoy.mu is held.
func (c *convoy) clear() bool { return c.out < maxOut && c.shared == 0 }

// landed takes in that a request of n steps has come back.
func (b *backend) landed(n int) {
	c := &b.convoy
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out--
	if n > 1 {
		c.shared--
	}
	if c.next != nil && c.clear() {
		b.launch()
	}
}

// depart sends a batch that has waited too long.
func (b *backend) depart(bt *batch) {
	c := &b.convoy
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == bt {
		b.launch()
	}
}

// launch sends the next batch. convoy.mu is held.
func (b *backend) launch() {
	c := &b.convoy
	bt := c.next
	c.next = nil
	bt.timer.Stop()
	var rides []*ride
	for _, r := range bt.rides {
		if !r.left {
			rides = append(rides, r)
		}
	}
	if len(rides) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(b.life, makeWithin)
	bt.cancel = cancel
	c.out++
	if len(rides) > 1 {
		c.shared++
	}
	if !b.start(func() {
		defer cancel()
		bt.err = b.carry(ctx, rides)
		close(bt.done)
		b.landed(len(rides))
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

// carry makes the request of a batch.
func (b *backend) carry(ctx context.Context, rides []*ride) (err error) {
	if len(rides) == 1 {
		rides[0].answer, err = b.send(ctx, rides[0].step)
		return err
	}
	steps := make([]step, len(rides))
	for i, r := range rides {
		steps[i] = r.step
	}
	answers, err := b.sendAll(ctx, steps)
	var refusal rpctypes.EtcdError
	switch {
	case err == nil:
		for i, r := range rides {
			r.answer = answers[i]
		}
		return nil
	case !errors.As(err, &refusal) || !driver.Definite(err):
		return err
	}
	b.ops.tooMany(err, len(rides))
	return errAlone
}
