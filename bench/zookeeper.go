package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/internal/bench"
)

func zookeeperSubjects() []subject {
	return []subject{
		{store: "zookeeper", name: "create + delete", kind: bench.Floor, locks: openBareZooKeeper, waits: "by a watch of the node, all at once"},
		{store: "zookeeper", name: "zk.Lock", module: "github.com/go-zookeeper/zk", kind: bench.Peer, locks: openZKLock, waits: "woken, in order"},
		{store: "zookeeper", name: "setData", kind: bench.Floor, limits: openSetData, limit: "none"},
	}
}

// zooKeeper is a session.
type zooKeeper struct{ *zk.Conn }

func (z zooKeeper) Close() error {
	z.Conn.Close()
	return nil
}

func newZooKeeper(ctx context.Context, s *store) (zooKeeper, error) {
	conn, events, err := zk.Connect([]string{s.addr}, ttl, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	if err != nil {
		return zooKeeper{}, err
	}
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return zooKeeper{conn}, nil
			}
		case <-ctx.Done():
			conn.Close()
			return zooKeeper{}, context.Cause(ctx)
		case <-time.After(10 * time.Second):
			conn.Close()
			return zooKeeper{}, errors.New("zookeeper: no session")
		}
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

var anybody = zk.WorldACL(zk.PermAll)

// bareZooKeeper creates an ephemeral node, and watches it while it is another's.
type bareZooKeeper struct{ zooKeeper }

func openBareZooKeeper(ctx context.Context, s *store) (lockClient, error) {
	z, err := newZooKeeper(ctx, s)
	return bareZooKeeper{z}, err
}

type nodeHeld struct {
	z    zooKeeper
	path string
}

func (b bareZooKeeper) Lock(ctx context.Context, key string) (bench.Held, error) {
	for {
		path, err := b.Create("/"+key, nil, zk.FlagEphemeral, anybody)
		if err == nil {
			return &nodeHeld{b.zooKeeper, path}, nil
		}
		if !errors.Is(err, zk.ErrNodeExists) {
			return nil, err
		}
		there, _, gone, err := b.ExistsW("/" + key)
		if err != nil {
			return nil, err
		}
		if there {
			select {
			case <-gone:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
}

func (h *nodeHeld) Unlock(context.Context) error { return h.z.Delete(h.path, -1) }

// zkLocks is the client library's own lock. It heeds no context.
type zkLocks struct{ zooKeeper }

func openZKLock(ctx context.Context, s *store) (lockClient, error) {
	z, err := newZooKeeper(ctx, s)
	return zkLocks{z}, err
}

type zkLockHeld zk.Lock

func (h *zkLockHeld) Unlock(context.Context) error { return (*zk.Lock)(h).Unlock() }

func (z zkLocks) Lock(_ context.Context, key string) (bench.Held, error) {
	l := zk.NewLock(z.Conn, "/"+key, anybody)
	if err := l.Lock(); err != nil {
		return nil, err
	}
	return (*zkLockHeld)(l), nil
}

// setData is the least that a decision on ZooKeeper can be: one write.
type setData struct{ zooKeeper }

func openSetData(ctx context.Context, s *store, _ bench.Rate) (limitClient, error) {
	z, err := newZooKeeper(ctx, s)
	return setData{z}, err
}

func (z setData) Allow(_ context.Context, key string) (bool, error) {
	_, err := z.Set("/"+key, []byte("state of thirty-two bytes, or so"), -1)
	if errors.Is(err, zk.ErrNoNode) {
		if _, err = z.Create("/"+key, nil, 0, anybody); errors.Is(err, zk.ErrNodeExists) {
			err = nil
		}
	}
	return true, err
}
