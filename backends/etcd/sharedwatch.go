package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// NotifyChanges implements driver.SharedLocker by a watch on the stream of waiters. It ends with the watch.
func (s sharedLocker) NotifyChanges(ctx context.Context, key string, changed func()) error {
	if err := checkKey(key); err != nil {
		return err
	}
	call, done, err := s.b.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	prefix := s.b.names.shared(key)
	c := &changes{changed: changed, lost: make(chan struct{})}
	ready := make(chan struct{})
	w := &watch{key: prefix, end: clientv3.GetPrefixRangeEnd(prefix), of: c, ready: ready}
	s.b.waits.begin(w)
	defer s.b.waits.end(w)
	for {
		select {
		case <-ready:
			ready = nil
			changed()
		case <-c.lost:
			return errNoWatch
		case <-call.Done():
			return ended(call)
		}
	}
}

var errNoWatch = errors.New("etcd: the watch of the key has ended")

// changes passes on what makes room on a key.
type changes struct {
	changed func()
	lost    chan struct{} // closed when the watch ends
}

// saw reports what has gone or become smaller, and not of what has come.
func (c *changes) saw(ev *mvccpb.Event) {
	if ev.Type == mvccpb.DELETE || ev.Kv.CreateRevision != ev.Kv.ModRevision {
		c.changed()
	}
}

func (c *changes) blind() { close(c.lost) }
