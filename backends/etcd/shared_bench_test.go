package etcd

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// takeRelease is a take and a release of a shared hold.
func takeRelease(store *backend, key string, share driver.Share) func() error {
	s, ctx := store.Shared(), context.Background()
	return func() error {
		r := driver.Request{ID: newID("bench"), TTL: 30 * time.Second, Share: share}
		if _, err := s.TryLock(ctx, key, r); err != nil {
			return err
		}
		return s.Unlock(ctx, key, r.ID)
	}
}

var benchShares = map[string]driver.Share{"read": reads, "write": writes, "permits": permits(1, 16)}

// A take and a release, against two bare transactions, and against etcd's recipes, which wait where we refuse.
func BenchmarkShared(b *testing.B) {
	srv := testserver.Etcd(b, testserver.Durable())
	client, store := raw(b, srv.Addr), connect(b, srv.Addr)
	ctx := context.Background()
	lease := must[*clientv3.LeaseGrantResponse](b)(client.Grant(ctx, 600))
	session := must[*concurrency.Session](b)(concurrency.NewSession(client, concurrency.WithLease(lease.ID)))
	bare := func() error {
		absent := clientv3.Compare(clientv3.CreateRevision("bare"), "=", 0)
		if _, err := client.Txn(ctx).If(absent).Then(clientv3.OpPut("bare", "id", clientv3.WithLease(lease.ID))).Commit(); err != nil {
			return err
		}
		own := clientv3.Compare(clientv3.Value("bare"), "=", "id")
		_, err := client.Txn(ctx).If(own).Then(clientv3.OpDelete("bare")).Commit()
		return err
	}
	rw := recipe.NewRWMutex(session, "recipe-rw")
	mutex := concurrency.NewMutex(session, "recipe-mutex")
	against := map[string]func() error{
		"bare": bare,
		"RWMutex.RLock": func() error {
			if err := rw.RLock(); err != nil {
				return err
			}
			return rw.RUnlock()
		},
		"RWMutex.Lock": func() error {
			if err := rw.Lock(); err != nil {
				return err
			}
			return rw.Unlock()
		},
		"Mutex": func() error {
			if err := mutex.Lock(ctx); err != nil {
				return err
			}
			return mutex.Unlock(ctx)
		},
	}
	for _, pair := range [][2]string{
		{"read", "bare"}, {"read", "RWMutex.RLock"}, {"write", "bare"}, {"write", "RWMutex.Lock"}, {"permits", "bare"}, {"permits", "Mutex"},
	} {
		b.Run(pair[0]+" against "+pair[1], func(b *testing.B) {
			testserver.Ratio(b, against[pair[1]], takeRelease(store, pair[0], benchShares[pair[0]]))
		})
	}
}

// A take and a release beside the readers of another client, against one alone.
func BenchmarkSharedBeside(b *testing.B) {
	for _, n := range []int{1, 16, 256, 1000} {
		b.Run(fmt.Sprint(n, " readers"), func(b *testing.B) {
			srv := testserver.Etcd(b, testserver.Durable())
			store, other := connect(b, srv.Addr), connect(b, srv.Addr)
			for range n {
				must[driver.Grant](b)(tryShared(other, "busy", share1("r", reads)))
			}
			testserver.Ratio(b, takeRelease(store, "alone", reads), takeRelease(store, "busy", reads))
		})
	}
}

// A take and a release of a key that was taken 30,000 times, against a new one.
func BenchmarkSharedForgotten(b *testing.B) {
	srv := testserver.Etcd(b)
	store := connect(b, srv.Addr)
	for range 30_000 {
		if err := takeRelease(store, "old", permits(1, 16))(); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	testserver.Ratio(b, takeRelease(store, "new", permits(1, 16)), takeRelease(store, "old", permits(1, 16)))
}
