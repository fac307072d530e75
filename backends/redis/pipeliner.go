package redis

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver/batch"
)

const (
	// maxActive is how many calls are under way when further requests are queued. With fewer, a few goroutines would
	// wait for each other where a round trip takes long; with more, many would not share enough of them.
	maxActive = 4
	// maxPipelined is how many requests a pipeline has at most.
	maxPipelined = 128
	// stall is how long a queue waits at most for calls under way, which may hang.
	stall = 2 * time.Millisecond
)

// pipeliner sends the requests of many goroutines to one server in pipelines.
//
// go-redis has automatic pipelines too. But a caller whose ctx ends is not told whether its request was sent, a
// server that hangs delays everybody, and goroutines are left behind.
type pipeliner struct {
	*batch.Batcher[redis.Cmder]
	b      *backend
	client *redis.Client
}

func newPipeliner(b *backend, c *redis.Client, wait time.Duration) *pipeliner {
	p := &pipeliner{b: b, client: c}
	p.Batcher = batch.New[redis.Cmder](p, batch.Options{
		Out: maxActive, Shared: maxActive, Wait: wait, Calls: b.calls,
	})
	return p
}

// Send implements batch.Sender.
func (p *pipeliner) Send(ctx context.Context, cmd redis.Cmder) error {
	_, err := p.b.do(ctx, p.client, cmd)
	return err
}

// SendAll implements batch.Sender.
func (p *pipeliner) SendAll(ctx context.Context, cmds []redis.Cmder, answer func(int, error)) {
	pipe := p.client.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd) // is put on a list
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	for i, cmd := range cmds {
		answer(i, cmd.Err())
	}
}

// Join implements batch.Sender.
func (p *pipeliner) Join(before []redis.Cmder, _ redis.Cmder) (fits, full bool) {
	return true, len(before)+1 >= maxPipelined
}

// pipeliners are those to the servers of a backend.
type pipeliners struct {
	one atomic.Pointer[pipeliner] // the last that was used
	mu  sync.Mutex
	all map[*redis.Client]*pipeliner
}

// of is the pipeliner to the server that c talks to.
func (s *pipeliners) of(b *backend, c *redis.Client) *pipeliner {
	if p := s.one.Load(); p != nil && p.client == c {
		return p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.all[c]
	if p == nil {
		// Servers may have left the cluster. A pipeliner that is still used is as good as a new one,
		// except that fewer share it.
		maps.DeleteFunc(s.all, func(_ *redis.Client, old *pipeliner) bool { return old.Idle() })
		if s.all == nil {
			s.all = map[*redis.Client]*pipeliner{}
		}
		p = newPipeliner(b, c, stall)
		s.all[c] = p
	}
	s.one.Store(p)
	return p
}
