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

// Partition implements driver.Backend: the address of the master that key lives on. A store
// of one server, or behind sentinels, has one part.
func (b *backend) Partition(key string) string { return b.part(lockKey(key)) }

// part is Partition of a key as the server has it.
func (b *backend) part(key string) string {
	if b.cluster == nil {
		return ""
	}
	node, err := b.cluster.MasterForKey(context.Background(), key) // is known
	if err != nil {
		return ""
	}
	return node.Options().Addr
}

// eachPart calls do for the indices of each part at once, and returns when all have returned:
// a master that does not answer holds up nobody else.
func (b *backend) eachPart(n int, key func(i int) string, do func(which []int)) {
	parts := map[string][]int{}
	for i := range n {
		part := b.part(key(i))
		parts[part] = append(parts[part], i)
	}
	var wg sync.WaitGroup
	for _, which := range parts {
		wg.Go(func() { do(which) })
	}
	wg.Wait()
}

// The bounds of the probe of a cluster, where one master may be silent while others serve.
const (
	// firstLook is how long one node may take to tell where the slots are, before another
	// one is asked. Each further node has twice as long.
	firstLook = 500 * time.Millisecond
	// partWithin is how long the other masters may take when one has answered. One that serves
	// takes hardly longer than that one.
	partWithin = time.Second
)

// server is a server with data.
type server struct {
	processor
	addr string // of a master of a cluster
	key  string // one that lives there
}

// serves makes sure that a server does. A node answers PING also when the cluster is down.
func (s server) serves(ctx context.Context) error {
	if s.key == "" {
		return s.Process(ctx, redis.NewStatusCmd(ctx, "ping"))
	}
	return s.Process(ctx, redis.NewIntCmd(ctx, "pttl", s.key))
}

// servers are all of them.
func (b *backend) servers(ctx context.Context) (servers []server, err error) {
	if b.cluster == nil {
		return []server{{processor: b.client}}, nil
	}
	err = b.look(ctx, func(ctx context.Context) error {
		servers, err = b.masters(ctx)
		return err
	})
	return servers, err
}

// look calls find, which looks where the slots of a cluster are. A node that does not answer is not waited
// for while others may.
func (b *backend) look(ctx context.Context, find func(context.Context) error) error {
	for within := firstLook; ; within *= 2 {
		look, cancel := context.WithTimeout(ctx, within)
		err := find(look)
		cancel()
		if err == nil || !timedOut(err) || ctx.Err() != nil || b.calls.Closed() {
			return err
		}
	}
}

// nodes are the masters of a cluster, by their address.
func (b *backend) nodes(ctx context.Context) (map[string]*server, error) {
	var mu sync.Mutex
	byAddr := map[string]*server{}
	err := b.cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		addr := node.Options().Addr
		byAddr[addr] = &server{processor: node, addr: addr}
		return nil
	})
	return byAddr, err
}

// masters are those of a cluster, each with a key of its own.
func (b *backend) masters(ctx context.Context) ([]server, error) {
	byAddr, err := b.nodes(ctx)
	if err != nil {
		return nil, err
	}
	// A few tries find a key of each master. One that has hardly a slot may be left out.
	var servers []server
	for i := 0; len(servers) < len(byAddr) && i < 1000*len(byAddr); i++ {
		key := lockKey(fmt.Sprint("ping", i))
		if s := byAddr[b.part(key)]; s != nil && s.key == "" {
			s.key = key
			servers = append(servers, *s)
		}
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("%w: no master has a slot", driver.ErrNotSent)
	}
	return servers, nil
}

// census is what servers have answered to ask. It is a processor, so that a call can leave
// it behind when its ctx ends.
type census[T any] struct {
	b       *backend
	ask     func(ctx context.Context, s server) (T, error)
	answers []T
	silent  []error // of each server that has not answered
}

// Process asks all servers at once. When one has answered, the others have partWithin more. The
// command it is given is ignored.
func (c *census[T]) Process(ctx context.Context, _ redis.Cmder) error {
	servers, err := c.b.servers(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		s     server
		value T
		err   error
	}
	answers := make(chan answer, len(servers))
	silent := map[server]error{}
	for _, s := range servers {
		silent[s] = errUnanswered
		go func() {
			value, err := c.ask(ctx, s)
			answers <- answer{s, value, err}
		}()
	}
	var late <-chan time.Time
	for n := 0; n < len(servers); n++ {
		select {
		case a := <-answers:
			silent[a.s] = a.err
			if a.err == nil {
				delete(silent, a.s)
				c.answers = append(c.answers, a.value)
				late = time.After(partWithin)
			}
		case <-late:
			n = len(servers)
		}
	}
	for s, err := range silent {
		if len(silent) == len(servers) {
			return err
		}
		c.silent = append(c.silent, fmt.Errorf("%s: %w", s.addr, err))
	}
	return nil
}

var errUnanswered = errors.New("no answer")

// askAll asks each server. It fails if none answers, and gives the error of each that does
// not.
func askAll[T any](ctx context.Context, b *backend, ask func(ctx context.Context, s server) (T, error)) (answers []T, silent []error, err error) {
	c := &census[T]{b: b, ask: ask}
	if _, err := b.do(ctx, c, nil); err != nil {
		return nil, nil, classify(b.clusterError(err))
	}
	return c.answers, c.silent, nil
}
