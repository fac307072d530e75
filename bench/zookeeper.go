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
		{store: "zookeeper", name: "create + delete", kind: floor, use: alone | contended | shared, locks: openBareZooKeeper, about: "by a watch of the node, all at once"},
		{store: "zookeeper", name: "zk.Lock", module: "github.com/go-zookeeper/zk", use: alone | contended | shared | sharedWake, locks: openZKLock, about: "woken, in order"},
		{store: "zookeeper", name: "setData", kind: floor, limits: openSetData, about: "none"},
	}
}

// newZooKeeper makes a session.
func newZooKeeper(ctx context.Context, s *store) (conn *zk.Conn, closing func() error, err error) {
	conn, events, err := zk.Connect([]string{s.addr}, ttl, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, func() error { conn.Close(); return nil }, nil
			}
		case <-ctx.Done():
			conn.Close()
			return nil, nil, errors.Join(errors.New("zookeeper: no session"), context.Cause(ctx))
		}
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

var anybody = zk.WorldACL(zk.PermAll)

// openBareZooKeeper creates an ephemeral node, and watches it while it is another's.
func openBareZooKeeper(ctx context.Context, s *store) (*locks, error) {
	conn, closing, err := newZooKeeper(ctx, s)
	return &locks{closing, func(ctx context.Context, key string) (unlock, error) {
		for {
			path, err := conn.Create("/"+key, nil, zk.FlagEphemeral, anybody)
			if !errors.Is(err, zk.ErrNodeExists) {
				return func(context.Context) error { return conn.Delete(path, -1) }, err
			}
			there, _, gone, err := conn.ExistsW("/" + key)
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
	}}, err
}

// openZKLock is the client library's own lock. It heeds no context.
func openZKLock(ctx context.Context, s *store) (*locks, error) {
	conn, closing, err := newZooKeeper(ctx, s)
	return &locks{closing, func(_ context.Context, key string) (unlock, error) {
		l := zk.NewLock(conn, "/"+key, anybody)
		return func(context.Context) error { return l.Unlock() }, l.Lock()
	}}, err
}

// openSetData is the least that a decision on ZooKeeper can be: one write.
func openSetData(ctx context.Context, s *store, _ bench.Rate) (*limits, error) {
	conn, closing, err := newZooKeeper(ctx, s)
	return &limits{closing, func(_ context.Context, key string) (bool, error) {
		_, err := conn.Set("/"+key, []byte(state), -1)
		if errors.Is(err, zk.ErrNoNode) {
			if _, err = conn.Create("/"+key, nil, 0, anybody); errors.Is(err, zk.ErrNodeExists) {
				err = nil
			}
		}
		return true, err
	}}, err
}
