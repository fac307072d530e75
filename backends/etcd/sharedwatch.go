package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// NotifyChanges implements driver.SharedLocker by a watch on the stream of waiters. A watch that has begun, and ends with
// its stream, is made again.
func (s sharedLocker) NotifyChanges(ctx context.Context, key string, changed func()) error {
	call, done, err := s.store.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	for {
		if began, err := s.watch(call, key, changed); !began || !errors.Is(err, errNoWatch) {
			return err
		}
		if err := s.store.calls.Pause(call, streamPause); err != nil {
			return err
		}
	}
}

// watch watches a key until ctx or the watch ends.
func (s sharedLocker) watch(ctx context.Context, key string, changed func()) (began bool, err error) {
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
			ready, began = nil, true
			changed()
		case <-w.lost:
			return began, errNoWatch
		case <-ctx.Done():
			return began, ended(ctx)
		}
	}
}

var errNoWatch = errors.New("etcd: the watch has ended, or could not begin")
