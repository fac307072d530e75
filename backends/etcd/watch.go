package etcd

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// lose takes in that e is no hold and no waiter any more. What is still at the store,
// being broken, is removed at the deadline.
func (b *backend) lose(e *entry, cause error) {
	b.mu.Lock()
	was := e.state
	var call func()
	switch was {
	case held:
		e.state = kept
		call = b.tell(e, was, cause)
	case waiting:
		call = b.gone(e, cause)
	}
	b.mu.Unlock()
	if call != nil {
		call()
	}
}

// guard watches e until it is dropped or doomed. backend.mu is held.
func (b *backend) guard(e *entry) {
	if e.guardAt = (time.Time{}); b.life.Err() != nil {
		return // Close does not wait for what begins after it
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(b.life))
	e.unguard = cancel
	b.bg.Go(func() {
		defer cancel()
		b.watchOwn(ctx, e)
	})
}

// watchOwn sees to it that a loss of e is told at once. The watch begins at the entry's
// creation, so that nothing is missed; should that be compacted away, or the watch
// break, the entry is read and a new one begun.
func (b *backend) watchOwn(ctx context.Context, e *entry) {
	const least, most = 10 * time.Millisecond, time.Second
	pause := least
	from := e.create + 1
	for ctx.Err() == nil {
		began := time.Now()
		cause := b.watchFrom(ctx, e, from)
		if cause != nil {
			if ctx.Err() == nil {
				b.lose(e, cause)
			}
			return
		}
		resp, err := b.kv.Get(ctx, e.name)
		if err == nil {
			if len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != e.create {
				b.lose(e, errEntryGone)
				return
			}
			if string(resp.Kvs[0].Value) != heldValue(e.id) {
				b.lose(e, errBroken)
				return
			}
			from = resp.Header.Revision + 1
			if time.Since(began) > most { // it was not refused
				pause = least
			}
		}
		if sleep(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, most)
	}
}

var (
	errEntryGone = errors.New("etcd: the entry is gone")
	errBroken    = errors.New("etcd: the hold was broken")
)

// watchFrom watches until the entry is lost, and says how, or the watch ends.
func (b *backend) watchFrom(ctx context.Context, e *entry, from int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for resp := range b.guards.Watch(ctx, e.name, clientv3.WithRev(from)) {
		if resp.Err() != nil {
			return nil
		}
		for _, ev := range resp.Events {
			switch {
			case ev.Type == clientv3.EventTypeDelete:
				return errEntryGone
			case string(ev.Kv.Value) != heldValue(e.id):
				return errBroken
			}
		}
	}
	return nil
}

// sleep waits for d, or ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}
