package migration

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/coordgo/coord"
	coordetcd "github.com/coordgo/coord/backends/etcd"
)

// etcdBefore needs a session for the lock.
func etcdBefore(ctx context.Context, cli *clientv3.Client, work func(context.Context) error) error {
	session, err := concurrency.NewSession(cli, concurrency.WithTTL(30))
	if err != nil {
		return err
	}
	defer session.Close()
	mutex := concurrency.NewMutex(session, "/locks/invoices")
	if err := mutex.Lock(ctx); err != nil {
		return err
	}
	defer func() { _ = mutex.Unlock(context.WithoutCancel(ctx)) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-session.Done(): // the lease has expired, or is not known
			cancel()
		case <-ctx.Done():
		}
	}()
	return work(ctx)
}

// etcdAfter shares one lease with all locks of this TTL.
func etcdAfter(ctx context.Context, client *coord.Client, work func(context.Context) error) error {
	return coord.Do(ctx, client, "invoices", work)
}

// overEtcd uses the client that the program has.
func overEtcd(cli *clientv3.Client) (*coord.Client, error) {
	store, err := coordetcd.New(cli)
	if err != nil {
		return nil, err
	}
	return coord.New(store, coord.WithPrefix("shop/"))
}
