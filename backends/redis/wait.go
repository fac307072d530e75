package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

const (
	maxReplicas        = 100
	defaultWaitTimeout = time.Second
)

// WithWaitReplicas makes a lock count as granted or renewed only when n replicas have
// it too, from 1 to 100, each time after within at most (0: 1s; less than the client's
// ReadTimeout). A lock that does not reach them in time is given back at once, and the
// attempt fails; a renewal that does not is one that failed, and is repeated.
//
// A failover to one of those replicas then finds the lock. Redis does not promise to choose
// one of them, unless n is the number of all replicas: this makes the loss of a lock
// rarer, and does not rule it out. Limits do not wait.
func WithWaitReplicas(n int, within time.Duration) Option {
	return func(o *options) { o.replicas, o.replicasWithin = n, within }
}

// checkWait checks, and completes, the options of WithWaitReplicas.
func (o *options) checkWait(readTimeout time.Duration) error {
	if o.replicas == 0 && o.replicasWithin == 0 {
		return nil
	}
	if o.replicas < 1 || o.replicas > maxReplicas {
		return fmt.Errorf("%w: wait for %d replicas: want 1 to %d", driver.ErrInvalid, o.replicas, maxReplicas)
	}
	if o.replicasWithin == 0 {
		o.replicasWithin = min(defaultWaitTimeout, readTimeout/2)
	}
	if o.replicasWithin < time.Millisecond || o.replicasWithin >= readTimeout {
		return fmt.Errorf("%w: wait %v for replicas: want at least 1ms, and less than the read timeout of %v", driver.ErrInvalid, o.replicasWithin, readTimeout)
	}
	return nil
}

// waiting is calls that are followed by WAIT, on the connection that they went over:
// one pipeline to each server concerned.
type waiting struct {
	b     *backend
	keys  []string // one of each call
	calls []*call
	waits []*redis.IntCmd // of each call; calls to one server share one
}

func newWaiting(b *backend, n int) *waiting {
	return &waiting{b: b, keys: make([]string, 0, n), calls: make([]*call, 0, n), waits: make([]*redis.IntCmd, n)}
}

func (w *waiting) add(key string, c *call) {
	w.keys, w.calls = append(w.keys, key), append(w.calls, c)
}

// Process runs them; each has its own error. The command it is given is ignored.
func (w *waiting) Process(ctx context.Context, _ redis.Cmder) error {
	nodes := map[*redis.Client][]int{}
	for i, key := range w.keys {
		node, err := w.b.master(ctx, key)
		if err != nil {
			w.calls[i].SetErr(err)
			continue
		}
		nodes[node] = append(nodes[node], i)
	}
	var wg sync.WaitGroup
	for node, calls := range nodes {
		wg.Go(func() { w.ask(ctx, node, calls) })
	}
	wg.Wait()
	return nil
}

func (w *waiting) ask(ctx context.Context, node *redis.Client, calls []int) {
	within := w.b.options.replicasWithin
	if deadline, ok := ctx.Deadline(); ok {
		// What is left of the time is for giving the lock back.
		within = max(min(within, time.Until(deadline)*8/10), time.Millisecond)
	}
	wait := redis.NewIntCmd(ctx, "wait", w.b.options.replicas, within.Milliseconds())
	pipe := node.Pipeline()
	for _, i := range calls {
		w.waits[i] = wait
		_ = pipe.Process(ctx, w.calls[i]) // is put on a list
	}
	_ = pipe.Process(ctx, wait)
	_, _ = pipe.Exec(ctx) // each command has its error
}

// shortfall is nil if the replicas have what call i did.
func (w *waiting) shortfall(i int) error {
	n, err := w.waits[i].Result()
	switch {
	case err != nil:
		return fmt.Errorf("redis: not known whether %d replicas have the lock: %w", w.b.options.replicas, err)
	case n < int64(w.b.options.replicas):
		return fmt.Errorf("redis: %d of %d replicas have the lock after %v", n, w.b.options.replicas, w.b.options.replicasWithin)
	}
	return nil
}

// master is the client of the one server that a key is on.
func (b *backend) master(ctx context.Context, key string) (*redis.Client, error) {
	if b.cluster != nil {
		return b.cluster.MasterForKey(ctx, key)
	}
	return b.client.(*redis.Client), nil // by checkClient
}

// runGrant runs a script that grants or renews the lock at key, and then waits for the
// replicas, where that is asked for. short is not nil if they do not have what the
// script has done.
func (b *backend) runGrant(ctx context.Context, s *script, key string, keysAndArgs ...any) (reply []int64, short, err error) {
	if b.options.replicas == 0 {
		reply, err = b.runInts(ctx, s, 3, keysAndArgs...)
		return reply, nil, err
	}
	return b.runWaiting(ctx, s, key, s.args(keysAndArgs...))
}

func (b *backend) runWaiting(ctx context.Context, s *script, key string, line []any) (reply []int64, short, err error) {
	pause := tryAgainFirst
	for try, source := 1, false; ; try++ {
		w := newWaiting(b, 1)
		w.add(key, newCall(ctx, line))
		if landed, err := b.fly(ctx, w, nil); !landed {
			return nil, nil, classify(err)
		}
		switch err := w.calls[0].Err(); {
		case err == nil:
			if reply, err = checkReply(w.calls[0].Val(), 3); err == nil && reply[0] != 0 {
				short = w.shortfall(0)
			}
			return reply, short, err
		case noScript(err) && !source:
			line, source = s.withSource(line), true
		case b.cluster != nil && try < tryAgainAtMost && (redirected(err) || redis.IsTryAgainError(err)):
			// WAIT is of no use where a redirection would lead: ask for the place again.
			b.noticeTopology(err)
			if over := b.pause(ctx, pause); over != nil {
				return nil, nil, fmt.Errorf("%w: %w: %w", driver.ErrNotSent, over, err)
			}
			pause = min(2*pause, tryAgainMost)
		default:
			b.noticeTopology(err)
			return nil, nil, classify(b.clusterError(err))
		}
	}
}

// giveBack ends a hold that too few replicas have. That the attempt has left nothing is
// certain only once the server has said so.
func (b *backend) giveBack(ctx context.Context, lock, id string, short error) error {
	err := b.runOwned(ctx, unlockScript, lock, id)
	switch {
	case err == nil || errors.Is(err, driver.ErrNotHeld):
		return fmt.Errorf("%w: %w: it was given back", driver.ErrNotSent, short)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %v", ctx.Err(), short)
	default: // err may be definite, but of the release only: it is not wrapped
		return fmt.Errorf("%w: to give it back failed: %v", short, err)
	}
}
