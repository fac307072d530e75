package etcd

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

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

// A take and a release, against two bare transactions.
func BenchmarkShared(b *testing.B) {
	srv := testserver.Etcd(b, testserver.Durable())
	client, store := raw(b, srv.Addr), connect(b, srv.Addr)
	ctx := context.Background()
	lease := must[*clientv3.LeaseGrantResponse](b)(client.Grant(ctx, 600))
	bare := func() error {
		absent := clientv3.Compare(clientv3.CreateRevision("bare"), "=", 0)
		if _, err := client.Txn(ctx).If(absent).Then(clientv3.OpPut("bare", "id", clientv3.WithLease(lease.ID))).Commit(); err != nil {
			return err
		}
		own := clientv3.Compare(clientv3.Value("bare"), "=", "id")
		_, err := client.Txn(ctx).If(own).Then(clientv3.OpDelete("bare")).Commit()
		return err
	}
	for name, share := range map[string]driver.Share{"read": reads, "write": writes, "permits": permits(1, 16)} {
		b.Run(name, func(b *testing.B) { testserver.Ratio(b, bare, takeRelease(store, name, share)) })
	}
}

// A take and a release beside the readers of another client, against one alone.
func BenchmarkSharedBeside(b *testing.B) {
	for _, n := range []int{1, 16, maxHolders - 1} {
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
