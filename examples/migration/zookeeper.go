package migration

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord"
	coordzk "github.com/coordgo/coord/backends/zookeeper"
)

// zkBefore waits without limit, also when ctx has ended.
func zkBefore(ctx context.Context, conn *zk.Conn, work func(context.Context) error) (err error) {
	lock := zk.NewLock(conn, "/locks/invoices", zk.WorldACL(zk.PermAll))
	if err := lock.Lock(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	return work(ctx)
}

// zkAfter waits until ctx ends, and the context of its work ends with a loss.
func zkAfter(ctx context.Context, client *coord.Client, work func(context.Context) error) error {
	return coord.Do(ctx, client, "invoices", work)
}

// overZooKeeper uses the connection that the program has.
func overZooKeeper(conn *zk.Conn) (*coord.Client, error) {
	store, err := coordzk.New(conn, coordzk.WithSessionTimeout(10*time.Second)) // what zk.Connect was given
	if err != nil {
		return nil, err
	}
	return coord.New(store, coord.WithPrefix("shop/"))
}
