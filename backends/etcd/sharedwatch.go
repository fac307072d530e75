package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// NotifyChanges implements driver.ChangeNotifier by a watch on the stream of waiters. A watch whose revision was compacted
// begins anew.
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
	for {
		c := &changes{changed: changed, lost: make(chan struct{})}
		if begun := s.b.watchChanges(call, prefix, c); call.Err() != nil {
			return ended(call)
		} else if !begun {
			return errNoWatch
		}
	}
}

var errNoWatch = errors.New("etcd: the server refuses to watch the key")

// changes passes on what makes room on a key.
type changes struct {
	changed func()
	lost    chan struct{} // closed when the watch ends
}

// saw tells of what has gone or become smaller, and not of what has come.
func (c *changes) saw(ev *mvccpb.Event) {
	if ev.Type == mvccpb.DELETE || ev.Kv.CreateRevision != ev.Kv.ModRevision {
		c.changed()
	}
}

func (c *changes) blind() { close(c.lost) }

// watchChanges watches until ctx or the watch ends. begun is false if the watch was refused.
func (b *backend) watchChanges(ctx context.Context, prefix string, c *changes) (begun bool) {
	ready := make(chan struct{})
	w := &watch{key: prefix, end: clientv3.GetPrefixRangeEnd(prefix), of: c, ready: ready}
	b.waits.begin(w)
	defer b.waits.end(w)
	select {
	case <-ready:
		c.changed()
		begun = true
	case <-c.lost:
		return false
	case <-ctx.Done():
		return false
	}
	select {
	case <-c.lost:
	case <-ctx.Done():
	}
	return begun
}
