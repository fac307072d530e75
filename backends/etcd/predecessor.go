package etcd

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// predecessor is the watch of the entry before that of a waiter.
type predecessor struct {
	*watch
	gone chan struct{} // has a message when the entry goes
}

// watchBefore watches the predecessor. It waits for the beginning of the watch no longer than the lease can go without a
// keep-alive request, and gives errNoWatch if it does not begin by then.
//
// The watch begins at the current revision. One from a past revision would be slower: the server serves it from its loop for
// slow watchers, every 100 ms.
func (b *backend) watchBefore(ctx context.Context, w *waiter) (*predecessor, error) {
	made, gone := w.made, make(chan struct{}, 1)
	p := &predecessor{gone: gone}
	p.watch = b.waits.begin(w.before, "", func(ev *mvccpb.Event) {
		// Names are used again. A member that lags reports the deletions of earlier entries of the same name, too.
		if ev.Type == mvccpb.DELETE && ev.Kv.ModRevision > made {
			select {
			case gone <- struct{}{}:
			default:
			}
		}
	})
	b.mu.Lock()
	within := min(w.lease.ttl/3, b.recheck)
	b.mu.Unlock()
	began, timer := time.Now(), time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.ready:
		return p, nil
	case <-timer.C:
		b.waits.distrust(began)
	case <-p.lost:
	case <-ctx.Done():
	}
	return p, errNoWatch
}

// pushed gives up the stream of s if it has said nothing since the predecessor was seen, whose end it should have told.
func (p *predecessor) pushed(s *watches, seen time.Time) {
	if len(p.gone) == 0 {
		s.distrust(seen)
	}
}

// ask sends a request of a waiter, and repeats it while the lease may live.
func (b *backend) ask(ctx context.Context, w *waiter, ops ...*pb.RequestOp) (*pb.TxnResponse, error) {
	b.mu.Lock()
	until := w.lease.until()
	b.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	answered := b.confirming(w.lease)
	resp, err := b.txnAgain(ctx, ops...)
	err = readOnly(ctx, err)
	switch {
	case err == nil:
		w.refusal = nil
		answered()
	case isRefusal(err):
		if w.refusal == nil {
			w.refused = time.Now()
		}
		w.refusal = err
	}
	return resp, err
}

// ends ends the wait of w, whose entry is not what it was.
func (b *backend) ends(w *waiter, cause error) error {
	b.lose(w.entry, cause)
	return fmt.Errorf("%w: %w", errOver, cause)
}

// standing checks that the entry is in the queue as it was made.
func (b *backend) standing(w *waiter, own []*mvccpb.KeyValue) error {
	if len(own) == 0 || own[0].CreateRevision != w.create {
		return b.ends(w, errEntryGone)
	}
	if rec, err := readRecord(w.queue, own[0]); err != nil || rec.released {
		return b.ends(w, errBroken)
	}
	return nil
}

// stillBehind reports whether the entry before that of w is there, without a read of the queue, which may be long.
func (b *backend) stillBehind(ctx context.Context, w *waiter) (bool, error) {
	resp, err := b.ask(ctx, w, getOf(w.name), getOf(w.before))
	if err != nil {
		return false, err
	}
	before := kvsOf(resp, 1)
	if err := b.standing(w, kvsOf(resp, 0)); err != nil || len(before) == 0 || before[0].CreateRevision != w.made {
		return false, err
	}
	_, err = readRecord(w.queue, before[0])
	return true, err
}

// look reads the entry and the one before it, in one request. If none comes before it, the entry is granted: the
// answer shows that it exists, and is the first.
func (b *backend) look(ctx context.Context, w *waiter) (granted bool, err error) {
	resp, err := b.ask(ctx, w, getOf(w.name), read(newestOfQueue(w.queue, 1, w.create-1)))
	if err != nil {
		return false, err
	}
	if err := b.standing(w, kvsOf(resp, 0)); err != nil {
		return false, err
	}
	before := kvsOf(resp, 1)
	if len(before) == 0 {
		err := b.grantTo(ctx, w)
		return err == nil, err
	}
	if _, err := readRecord(w.queue, before[0]); err != nil {
		return false, err
	}
	w.follow(before[0])
	w.waits()
	return false, nil
}
