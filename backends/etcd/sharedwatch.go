package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// NotifyChanges implements driver.SharedLocker by a watch on the stream of waiters. It ends with the watch.
func (s sharedLocker) NotifyChanges(ctx context.Context, key string, changed func()) error {
	call, done, err := s.store.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	prefix := s.store.names.shared(key)
	w := s.store.waits.begin(prefix, clientv3.GetPrefixRangeEnd(prefix), func(ev *mvccpb.Event) {
		// What has gone or become smaller makes room, and not what has come.
		if ev.Type == mvccpb.DELETE || ev.Kv.CreateRevision != ev.Kv.ModRevision {
			changed()
		}
	})
	defer s.store.waits.end(w)
	for ready := w.ready; ; {
		select {
		case <-ready:
			ready = nil
			changed()
		case <-w.lost:
			return errNoWatch
		case <-call.Done():
			return ended(call)
		}
	}
}

var errNoWatch = errors.New("etcd: the watch has ended, or could not begin")
