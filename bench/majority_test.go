package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

// majority is a client of a library that locks on more than half of some servers of Redis.
type majority interface {
	// lock waits for the key as long as the library does by itself; try asks once.
	lock(ctx context.Context, key string, ttl time.Duration) (majorityHold, error)
	try(ctx context.Context, key string, ttl time.Duration) (majorityHold, error)
	close() error
}

// majorityHold is a lock that is renewed until it is released or lost.
type majorityHold interface {
	token() int64 // 0: the library has none
	valid() bool  // as far as the holder can know
	done() <-chan struct{}
	unlock(ctx context.Context) error
}

// majorityLibrary opens clients. longest is the longest lease of the program, for which a server that has restarted has
// no vote at coord.
type majorityLibrary struct {
	name string
	open func(addrs []string, longest time.Duration) (majority, error)
}

var majorityLibraries = []majorityLibrary{
	{"coord", openCoordMajority},
	{"redsync", func(addrs []string, _ time.Duration) (majority, error) { return openRedsyncs(addrs) }},
	{"redsync, SetNXOnExtend, FailFast", func(addrs []string, _ time.Duration) (majority, error) {
		return openRedsyncs(addrs, redsync.WithSetNXOnExtend(), redsync.WithFailFast(true))
	}},
}

type coordMajority struct{ client *coord.Client }

func openCoordMajority(addrs []string, longest time.Duration) (majority, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var members []driver.Backend
	closeAll := func(err error) (majority, error) {
		for _, m := range members {
			err = errors.Join(err, m.Close())
		}
		return nil, err
	}
	for _, addr := range addrs {
		m, _, err := coord.OpenBackend(ctx, "redis://"+addr)
		if err != nil {
			return closeAll(err)
		}
		members = append(members, m)
	}
	b, err := quorum.New(longest, members...)
	if err != nil {
		return closeAll(err)
	}
	client, err := coord.New(b)
	return coordMajority{client}, err
}

func (c coordMajority) lock(ctx context.Context, key string, ttl time.Duration) (majorityHold, error) {
	return heldBy(c.client.Lock(ctx, key, coord.TTL(ttl)))
}

func (c coordMajority) try(ctx context.Context, key string, ttl time.Duration) (majorityHold, error) {
	return heldBy(c.client.TryLock(ctx, key, coord.TTL(ttl)))
}

func (c coordMajority) close() error { return c.client.Close() }

func heldBy(l *coord.Lock, err error) (majorityHold, error) {
	if err != nil {
		return nil, err
	}
	return coordHold{l}, nil
}

type coordHold struct{ l *coord.Lock }

func (h coordHold) token() int64                     { return int64(h.l.Token()) }
func (h coordHold) valid() bool                      { return h.l.Err() == nil && time.Now().Before(h.l.Deadline()) }
func (h coordHold) done() <-chan struct{}            { return h.l.Done() }
func (h coordHold) unlock(ctx context.Context) error { return h.l.Unlock(ctx) }

type redsyncMajority struct {
	sync    *redsync.Redsync
	clients []*redis.Client
	options []redsync.Option
}

func openRedsyncs(addrs []string, options ...redsync.Option) (majority, error) {
	r := &redsyncMajority{options: options}
	var pools []redsyncredis.Pool
	for _, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
		r.clients = append(r.clients, c)
		pools = append(pools, goredis.NewPool(c))
	}
	r.sync = redsync.New(pools...)
	return r, nil
}

func (r *redsyncMajority) lock(ctx context.Context, key string, ttl time.Duration) (majorityHold, error) {
	return r.take(ctx, key, ttl)
}

func (r *redsyncMajority) try(ctx context.Context, key string, ttl time.Duration) (majorityHold, error) {
	return r.take(ctx, key, ttl, redsync.WithTries(1))
}

func (r *redsyncMajority) take(ctx context.Context, key string, ttl time.Duration, more ...redsync.Option) (majorityHold, error) {
	options := append([]redsync.Option{redsync.WithExpiry(ttl)}, r.options...)
	m := r.sync.NewMutex(key, append(options, more...)...)
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	h := &redsyncHold{m: m, ended: make(chan struct{})}
	h.until.Store(new(m.Until()))
	ctx, h.stop = context.WithCancel(context.WithoutCancel(ctx))
	h.kept.Go(func() { h.keep(ctx, ttl/3) })
	return h, nil
}

func (r *redsyncMajority) close() (err error) {
	for _, c := range r.clients {
		err = errors.Join(err, c.Close())
	}
	return err
}

// redsyncHold is extended every third of its expiry, which redsync leaves to the program.
type redsyncHold struct {
	m     *redsync.Mutex
	until atomic.Pointer[time.Time]
	stop  context.CancelFunc
	kept  sync.WaitGroup
	ended chan struct{}
}

// keep extends until it is stopped, until a majority says that the lock is another's, or until the time is over.
func (h *redsyncHold) keep(ctx context.Context, every time.Duration) {
	defer close(h.ended)
	for {
		until := *h.until.Load()
		if !sleepUntil(ctx, min(every, time.Until(until))) || !h.valid() {
			return
		}
		bound, cancel := context.WithDeadline(ctx, until)
		extended, err := h.m.ExtendContext(bound)
		cancel()
		taken := new(redsync.ErrTaken)
		switch {
		case extended:
			h.until.Store(new(h.m.Until()))
		case errors.As(err, &taken):
			return
		}
	}
}

// sleepUntil reports false if ctx ended first.
func sleepUntil(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (h *redsyncHold) token() int64          { return 0 }
func (h *redsyncHold) done() <-chan struct{} { return h.ended }

func (h *redsyncHold) valid() bool {
	select {
	case <-h.ended:
		return false
	default:
		return time.Now().Before(*h.until.Load())
	}
}

var errNotReleased = errors.New("redsync: not released by a majority")

func (h *redsyncHold) unlock(ctx context.Context) error {
	h.stop()
	h.kept.Wait()
	released, err := h.m.UnlockContext(ctx)
	if !released && err == nil {
		err = errNotReleased
	}
	if released {
		err = nil // some servers did not answer, or had lost it
	}
	return err
}

// mustOpen opens a client that is closed with the test.
func (l majorityLibrary) mustOpen(tb testing.TB, addrs []string, longest time.Duration) majority {
	tb.Helper()
	c, err := l.open(addrs, longest)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.close(); err != nil {
			tb.Errorf("%s: close: %v", l.name, err)
		}
	})
	return c
}
