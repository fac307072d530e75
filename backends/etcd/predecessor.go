package etcd

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// predecessor is what a waiter knows of the entry before its own.
type predecessor struct {
	watch *watch
	made  int64
	gone  chan struct{} // closed when it goes
	lost  chan struct{} // closed when the watch ends
	once  sync.Once     // for gone
}

// saw ignores a deletion that is older than the predecessor. Names are used again, and a member that lags begins a watch
// at its own, older revision: it reports deletions of earlier entries of the same name.
func (p *predecessor) saw(ev *mvccpb.Event) {
	if ev.Type == mvccpb.DELETE && ev.Kv.ModRevision > p.made {
		p.once.Do(func() { close(p.gone) })
	}
}

func (p *predecessor) blind() { close(p.lost) }

// watchBefore watches the predecessor until ctx ends. It waits for the beginning of the watch no longer than the lease
// can go without a keep-alive request, and returns nil if the watch did not begin by then.
func (b *backend) watchBefore(ctx context.Context, w *waiter) *predecessor {
	if w.before == "" {
		return nil
	}
	b.mu.Lock()
	within := min(w.lease.ttl/3, b.recheck)
	b.mu.Unlock()
	ready := make(chan struct{})
	p := &predecessor{made: w.made, gone: make(chan struct{}), lost: make(chan struct{})}
	p.watch = &watch{key: w.before, of: p, ready: ready}
	b.waits.begin(p.watch)
	context.AfterFunc(ctx, func() { b.waits.end(p.watch) })
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-ready:
		return p
	case <-p.lost:
	case <-ctx.Done():
	case <-timer.C:
	}
	b.waits.end(p.watch)
	return nil
}

// stillBehind checks that the entry and the one before it exist. It reads the queue only if the one before it is gone: a
// queue may be long.
func (b *backend) stillBehind(ctx context.Context, w *waiter) error {
	if w.before == "" {
		return b.look(ctx, w)
	}
	resp, err := b.ask(ctx, w, clientv3.OpGet(w.name), clientv3.OpGet(w.before))
	if err != nil {
		return err
	}
	if err := b.standing(w, kvsOf(resp, 0)); err != nil {
		return err
	}
	before := kvsOf(resp, 1)
	if len(before) == 0 || before[0].CreateRevision != w.made {
		return b.look(ctx, w)
	}
	_, err = readRecord(w.queue, before[0])
	return err
}

// ask sends a request of a waiter, and repeats it while the lease may live.
func (b *backend) ask(ctx context.Context, w *waiter, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	b.mu.Lock()
	until := w.lease.until()
	b.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	resp, err := b.txnAgain(ctx, ops...)
	err = readOnly(ctx, err)
	b.mu.Lock()
	defer b.mu.Unlock()
	w.answered(err)
	return resp, err
}

// standing checks that the entry is in the queue as it was made.
func (b *backend) standing(w *waiter, own []*mvccpb.KeyValue) error {
	if len(own) == 0 || own[0].CreateRevision != w.create {
		b.lose(w.entry, errEntryGone)
		return errOver
	}
	if rec, err := readRecord(w.queue, own[0]); err != nil || rec.released {
		b.lose(w.entry, errBroken)
		return errOver
	}
	return nil
}

// look reads the entry and the one before it, in one request. If none comes before it, the entry is granted: the
// answer shows that it exists, and is the first.
func (b *backend) look(ctx context.Context, w *waiter) error {
	resp, err := b.ask(ctx, w,
		clientv3.OpGet(w.name),
		clientv3.OpGet(w.queue, clientv3.WithPrefix(), clientv3.WithMaxCreateRev(w.create-1),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(1)))
	if err != nil {
		return err
	}
	own, before := kvsOf(resp, 0), kvsOf(resp, 1)
	if err := b.standing(w, own); err != nil {
		return err
	}
	if len(before) > 0 {
		if _, err := readRecord(w.queue, before[0]); err != nil {
			return err
		}
		w.follow(before[0])
		w.waits()
		return nil
	}
	return b.grantTo(ctx, w)
}
