package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/internal/testserver"
)

// BenchmarkLock is a lock and an unlock through coord, and the library's own lock, each
// against the two requests that they come down to.
func BenchmarkLock(b *testing.B) {
	srv := testserver.ZooKeeper(b)
	store := connect(b, urlWith(b, srv.Addr, calmSession))
	c := must[*coord.Client](b)(coord.New(store))
	ctx := b.Context()
	isFree(b, store, "bare")
	dir := store.lockDir("bare")
	bare := func() error {
		path, err := store.conn.Create(dir+"/x-", nil, zk.FlagEphemeralSequential, store.acl)
		if err != nil {
			return err
		}
		return store.conn.Delete(path, -1)
	}
	b.Run("coord", func(b *testing.B) {
		testserver.Ratio(b, bare, func() error {
			l, err := c.Lock(ctx, "k")
			if err != nil {
				return err
			}
			return l.Unlock(ctx)
		})
	})
	b.Run("zk.Lock", func(b *testing.B) {
		theirs := zk.NewLock(store.conn, "/theirs", store.acl)
		testserver.Ratio(b, bare, func() error { return errors.Join(theirs.Lock(), theirs.Unlock()) })
	})
	if err := c.Close(); err != nil {
		b.Error(err)
	}
}

// BenchmarkAllow is a permit through coord, against one setData.
func BenchmarkAllow(b *testing.B) {
	srv := testserver.ZooKeeper(b)
	store := connect(b, urlWith(b, srv.Addr, calmSession))
	c := must[*coord.Client](b)(coord.New(store))
	limit := limitOf(b, "1000000/1h burst=1000000")
	if err := store.makePath("/bare"); err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 32)
	testserver.Ratio(b, func() error {
		_, err := store.conn.Set("/bare", data, -1)
		return err
	}, func() error {
		_, err := c.Allow(b.Context(), "k", limit)
		return err
	})
	if err := c.Close(); err != nil {
		b.Error(err)
	}
}

// BenchmarkWriters is twelve writers of one limit: in one client, in a client each, and as the usual
// loop of reading, deciding and writing until the version fits.
func BenchmarkWriters(b *testing.B) {
	const writers = 12
	srv := testserver.ZooKeeper(b)
	limit := limitOf(b, "1000000000/1h burst=1000000")
	var loop, last time.Duration
	together := func(b *testing.B, take func(i int) error) {
		var left atomic.Int64
		left.Store(int64(b.N))
		b.ResetTimer()
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					if err := take(i); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		b.StopTimer()
		per := b.Elapsed() / time.Duration(b.N)
		b.ReportMetric(float64(time.Second)/float64(per), "decisions/s")
		if loop > 0 {
			b.ReportMetric(float64(loop)/float64(per), "x-loop")
		}
		last = per
	}
	b.Run("loop", func(b *testing.B) {
		var stores []*backend
		for range writers {
			stores = append(stores, connect(b, urlWith(b, srv.Addr, calmSession)))
		}
		path := fmt.Sprint("/loop", rand.Int())
		var s limits.State
		state, err := s.AppendBinary(nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := stores[0].conn.Create(path, state, 0, stores[0].acl); err != nil {
			b.Fatal(err)
		}
		together(b, func(i int) error { return readModifyWrite(stores[i].conn, path, limit) })
	})
	loop = last
	b.Run("clients", func(b *testing.B) {
		var clients []*coord.Client
		for range writers {
			clients = append(clients, must[*coord.Client](b)(coord.New(connect(b, urlWith(b, srv.Addr, calmSession)))))
		}
		together(b, func(i int) error { return allow(b.Context(), clients[i], limit) })
		for _, c := range clients {
			if err := c.Close(); err != nil {
				b.Error(err)
			}
		}
	})
	b.Run("client", func(b *testing.B) {
		c := must[*coord.Client](b)(coord.New(connect(b, urlWith(b, srv.Addr, calmSession))))
		together(b, func(int) error { return allow(b.Context(), c, limit) })
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	})
}

func allow(ctx context.Context, c *coord.Client, l driver.Limit) error {
	_, err := c.Allow(ctx, "k", l)
	return err
}

// readModifyWrite is the loop without anything that helps.
func readModifyWrite(conn *zk.Conn, path string, l driver.Limit) error {
	for {
		data, stat, err := conn.Get(path)
		if err != nil {
			return err
		}
		var s limits.State
		if err := s.UnmarshalBinary(data); err != nil {
			return err
		}
		s.Take(l, time.Now().UnixMicro(), driver.Ask{Min: 1, N: 1})
		if data, err = s.AppendBinary(nil); err != nil {
			return err
		}
		if _, err = conn.Set(path, data, stat.Version); !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
}

// BenchmarkHandOver is one key that clients take in turn, each waiting in the queue.
func BenchmarkHandOver(b *testing.B) {
	srv := testserver.ZooKeeper(b)
	const clients = 4
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	var stores []*backend
	for range clients {
		stores = append(stores, connect(b, urlWith(b, srv.Addr, calmSession)))
	}
	b.ResetTimer()
	for _, s := range stores {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				r := request("b", time.Minute)
				_, err := s.Lock(b.Context(), "k", r, func() {})
				if err == nil {
					err = s.Unlock(b.Context(), "k", r.ID)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkManyLimits is 64 goroutines that decide on a limit each, and one that takes its own in turn with 1000
// others.
func BenchmarkManyLimits(b *testing.B) {
	limit := limitOf(b, "1000000000/1h burst=1000000")
	store := connect(b, urlWith(b, testserver.ZooKeeper(b).Addr, calmSession))
	take := func(key int64) {
		if one, err := store.TakeOne(b.Context(), fmt.Sprint("k", key), limit, driver.Ask{Min: 1, N: 1}); err != nil || one.N != 1 {
			b.Errorf("%+v, %v", one, err)
		}
	}
	b.Run("together", func(b *testing.B) {
		b.ReportAllocs()
		var next atomic.Int64
		testserver.Hammer(b, 64, 50, func() { take(next.Add(1) % 64) })
	})
	b.Run("alone", func(b *testing.B) {
		for i := range int64(1000) {
			take(i)
		}
		b.ReportAllocs()
		i := int64(0)
		for b.Loop() {
			take(i % 1000)
			i++
		}
	})
}

// BenchmarkManyReadersAtOnce has readers of many clients come at once. A busy machine makes them defeat each other more
// often.
func BenchmarkManyReadersAtOnce(b *testing.B) {
	const clients = 64
	p, first := openTapped(b)
	take(b, first, "k", sharedRequest("first", reading)) // makes the guard
	var others []*backend
	for range clients {
		others = append(others, connect(b, urlWith(b, p.addr(), calmSession)))
	}
	requests := 0
	for b.Loop() {
		p.take()
		var all sync.WaitGroup
		for _, other := range others {
			all.Go(func() {
				r := sharedRequest("a", reading)
				if _, err := other.Shared().TryLock(b.Context(), "k", r); err != nil {
					b.Error(err)
				}
				if err := other.Shared().Unlock(b.Context(), "k", r.ID); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
		for _, op := range p.take() {
			if op == opChildren || op == opMulti {
				requests++
			}
		}
	}
	b.ReportMetric(float64(requests)/float64(b.N*clients), "requests/turn")
}
