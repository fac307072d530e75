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

// pipelines runs commands in one pipeline to each server concerned. Each command has its own error.
type pipelines struct {
	b        *backend
	replicas int
	commands []*command
}

// Process runs them. The command that it is given is ignored.
func (p pipelines) Process(ctx context.Context, _ redis.Cmder) error {
	if p.replicas == 0 { // the client finds the servers, and follows redirections
		return p.send(ctx, p.b.client.Pipeline(), p.commands)
	}
	nodes := map[*redis.Client][]*command{}
	for _, c := range p.commands {
		key, _ := c.Args()[3].(string)
		node, err := p.b.master(ctx, key)
		if err != nil {
			c.SetErr(err)
			continue
		}
		nodes[node] = append(nodes[node], c)
	}
	var wg sync.WaitGroup
	for node, commands := range nodes {
		wg.Go(func() { _ = p.send(ctx, node.Pipeline(), commands) })
	}
	wg.Wait()
	return nil
}

// send runs commands in one pipeline. To wait for replicas it adds a WAIT: that goes over the same connection.
func (p pipelines) send(ctx context.Context, pipe redis.Pipeliner, commands []*command) error {
	for _, c := range commands {
		_ = pipe.Process(ctx, c) // is put on a list
	}
	if p.replicas > 0 {
		within := p.b.options.replicasWithin
		if deadline, ok := ctx.Deadline(); ok {
			// What is left of the time is for giving the lock back.
			within = max(min(within, time.Until(deadline)*8/10), time.Millisecond)
		}
		wait := redis.NewIntCmd(ctx, "wait", p.replicas, within.Milliseconds())
		_ = pipe.Process(ctx, wait)
		for _, c := range commands {
			c.wait = wait
		}
	}
	_, err := pipe.Exec(ctx) // the error of the first failed command; each has its own
	return err
}

// shortfall is nil if the replicas have what was done before wait; nil: nobody waited.
func (b *backend) shortfall(wait *redis.IntCmd) error {
	if wait == nil {
		return nil
	}
	n, err := wait.Result()
	switch {
	case err != nil:
		return fmt.Errorf("redis: not known whether %d replicas have the lock: %w", b.options.replicas, err)
	case n < int64(b.options.replicas):
		return fmt.Errorf("redis: %d of %d replicas have the lock after %v", n, b.options.replicas, b.options.replicasWithin)
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

// runGrant runs a script that grants or renews a lock, and then waits for the replicas, where that is asked for.
func (b *backend) runGrant(ctx context.Context, s *script, keysAndArgs ...any) reply {
	if b.options.replicas == 0 {
		return b.run(ctx, s.command(ctx, keysAndArgs...))
	}
	pause := tryAgainFirst
	for try := 1; ; try++ {
		r := b.runAll(ctx, b.options.replicas, []*command{s.command(ctx, keysAndArgs...)})[0]
		moved := redirected(r.err) || r.err != nil && redis.IsTryAgainError(r.err)
		if b.cluster == nil || !moved || try == tryAgainAtMost {
			return r
		}
		// WAIT is of no use where a redirection would lead: ask for the place again.
		if over := b.calls.Pause(ctx, pause); over != nil {
			return reply{err: fmt.Errorf("%w: %w", over, r.err)}
		}
		pause = min(2*pause, tryAgainMost)
	}
}

// giveBack ends a hold that too few replicas have. That the attempt has left nothing is
// certain only once the server has said so. unlock is the script that ends it.
func (b *backend) giveBack(ctx context.Context, unlock *script, key, id string, short error) error {
	err := b.runOwned(ctx, unlock, key, id)
	switch {
	case err == nil || errors.Is(err, driver.ErrNotHeld):
		return fmt.Errorf("%w: %w: it was given back", driver.ErrNotSent, short)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %v", ctx.Err(), short)
	default: // err may be definite, but of the release only: it is not wrapped
		return fmt.Errorf("%w: to give it back failed: %v", short, err)
	}
}
