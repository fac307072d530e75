package main

import (
	"context"
	"slices"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/bench"
)

// sharedUse is what a subject of shared holds is measured at: the sum of some of these.
type sharedUse int

const (
	alone sharedUse = 1 << iota
	saturated
	amongReaders
	woken
)

func takes(u sharedUse) func(subject) bool {
	return func(s subject) bool { return s.shares&u != 0 }
}

// sharedStores are those whose keys several can hold.
var sharedStores = []string{"redis", "etcd", "zookeeper", "memcached", "memory"}

// permits is of how many permits the contended semaphore is.
const permits = 16

// absentShared are libraries that do not do it.
var absentShared = map[string]string{
	"a semaphore of go.etcd.io/etcd/client/v3/experimental/recipes": "it has none; *session keys* is the usual way",
	"shared locks of github.com/go-zookeeper/zk":                    "it has an exclusive `Lock` only",
	"read/write locks on Redis":                                     "redislock, redsync and rueidislock have none",
}

// sharedSubjects are all that shared holds are measured with.
func sharedSubjects() []subject {
	return slices.Concat(sharedCoord(), sharedRedis(), sharedEtcd(), sharedOthers(), sharedMemory(), testSubjects)
}

func sharedCoord() (list []subject) {
	for _, store := range sharedStores {
		elsewhere, among := woken, amongReaders
		switch store {
		case "memory": // of one process
			elsewhere = 0
		case "memcached": // of at most 64 holders
			among = 0
		}
		list = append(list,
			usedAt(store, "coord", alone|elsewhere),
			subject{store: store, name: "coord, Semaphore(16)", kind: bench.Ours, locks: openShared(semaphoreOf(permits)), shares: alone | saturated},
			subject{store: store, name: "coord, Semaphore(1)", kind: bench.Ours, locks: openShared(semaphoreOf(1)), shares: elsewhere},
			subject{store: store, name: "coord, Read", kind: bench.Ours, locks: openShared(readers), shares: alone},
			subject{store: store, name: "coord, Write", kind: bench.Ours, locks: openShared(writers), reads: openShared(readers), shares: alone | among | elsewhere},
		)
	}
	return list
}

// usedAt is one of the subjects of exclusive locks, beside which shared holds are measured.
func usedAt(store, name string, at sharedUse) subject {
	list := subjects()
	s := list[slices.IndexFunc(list, func(s subject) bool { return s.store == store && s.name == name })]
	s.shares = at
	return s
}

// coordShared is a view of coord.
type coordShared struct {
	*coord.Client
	view *coord.Shared
}

func (c coordShared) Lock(ctx context.Context, key string) (bench.Held, error) {
	l, err := c.view.Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func semaphoreOf(n int) func(*coord.Client) *coord.Shared {
	return func(c *coord.Client) *coord.Shared { return c.Semaphore(n) }
}

func readers(c *coord.Client) *coord.Shared { return c.ReadWrite().Read() }

func writers(c *coord.Client) *coord.Shared { return c.ReadWrite().Write() }

func openShared(view func(*coord.Client) *coord.Shared) func(context.Context, *store) (lockClient, error) {
	return func(ctx context.Context, s *store) (lockClient, error) {
		url := s.url()
		if s.name == "memory" {
			url += "bench" // one for all clients of the process
		}
		c, err := coord.Open(ctx, url)
		if err != nil {
			return nil, err
		}
		return coordShared{c, view(c)}, nil
	}
}
