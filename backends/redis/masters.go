package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/call"
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
}

// serves makes sure that a server does. A node answers PING also when the cluster is down; one that says where a key is, is up.
func (s server) serves(ctx context.Context) error {
	if s.addr == "" {
		return s.Process(ctx, redis.NewStatusCmd(ctx, "ping"))
	}
	err := s.Process(ctx, redis.NewIntCmd(ctx, "pttl", lockKey("ping")))
	if redirected(err) {
		return nil
	}
	return err
}

// servers are all of them, in a certain order. A node of a cluster that does not say where the slots are is not waited for
// while others may.
func (b *backend) servers(ctx context.Context) ([]server, error) {
	if b.cluster == nil {
		return []server{{processor: b.client}}, nil
	}
	for within := firstLook; ; within *= 2 {
		look, cancel := context.WithTimeout(ctx, within)
		masters, err := b.masters(look)
		cancel()
		if err == nil || !timedOut(err) || ctx.Err() != nil || b.calls.Closed() {
			return masters, err
		}
	}
}

// masters are those of a cluster.
func (b *backend) masters(ctx context.Context) (masters []server, err error) {
	var mu sync.Mutex
	err = b.cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, server{node, node.Options().Addr})
		return nil
	})
	if err == nil && len(masters) == 0 {
		err = fmt.Errorf("%w: the cluster has no master", driver.ErrNotSent)
	}
	slices.SortFunc(masters, func(a, b server) int { return strings.Compare(a.addr, b.addr) })
	return masters, err
}

// census is what servers have answered.
type census[T any] struct {
	answers []T
	silent  []error // of each server that has not answered
}

// askAll asks all servers at once. When one has answered, the others have partWithin more. It fails if none answers, and
// gives the error of each that does not.
func askAll[T any](ctx context.Context, b *backend, ask func(ctx context.Context, s server) (T, error)) (answers []T, silent []error, err error) {
	c, _, err := call.Do(ctx, b.calls, func() (census[T], error) {
		servers, err := b.servers(ctx)
		if err != nil {
			return census[T]{}, err
		}
		return hold(ctx, servers, ask)
	}, nil)
	if err != nil {
		return nil, nil, classify(b.clusterError(err))
	}
	return c.answers, c.silent, nil
}

// hold holds a census.
func hold[T any](ctx context.Context, servers []server, ask func(ctx context.Context, s server) (T, error)) (c census[T], err error) {
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
			value, err := ask(ctx, s)
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
			return c, err
		}
		c.silent = append(c.silent, fmt.Errorf("%s: %w", s.addr, err))
	}
	return c, nil
}

var errUnanswered = errors.New("no answer")
