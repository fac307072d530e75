package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
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

// guard sees to it, while e is watched, that a loss of it is told at once.
type guard struct {
	b *backend
	e *entry

	// guarded by backend.mu
	watch *watch
	began time.Time
	pause time.Duration // before it begins again
	off   bool
}

// guard watches e until it is dropped or removing. backend.mu is held.
func (b *backend) guard(e *entry) {
	if e.guardAt = (time.Time{}); b.life.Err() != nil {
		return // Close does not wait for what begins after it
	}
	g := &guard{b: b, e: e}
	e.unguard = g.end
	g.begin(e.create + 1) // so that nothing is missed
}

// begin begins a watch at a revision. backend.mu is held.
func (g *guard) begin(from int64) {
	g.watch, g.began = &watch{key: g.e.name, of: g, from: from}, time.Now()
	g.b.guards.begin(g.watch)
}

// end ends it. backend.mu is held.
func (g *guard) end() {
	g.off = true
	g.b.guards.end(g.watch)
}

func (g *guard) saw(ev *mvccpb.Event) {
	switch {
	case ev.Type == mvccpb.DELETE:
		g.lose(errEntryGone)
	case !g.e.ours(ev.Kv.Value):
		g.lose(errBroken)
	}
}

// lose ends the guard, for it has seen the loss.
func (g *guard) lose(cause error) {
	g.b.mu.Lock()
	off := g.off
	g.end()
	g.b.mu.Unlock()
	if !off {
		g.b.lose(g.e, cause)
	}
}

// blind begins again, from what the store has now.
func (g *guard) blind() {
	g.b.start(g.again)
}

func (g *guard) again() {
	const least, most = 10 * time.Millisecond, time.Second
	for {
		g.b.mu.Lock()
		if g.pause = min(max(2*g.pause, least), most); time.Since(g.began) > most { // it was not refused
			g.pause = least
		}
		pause, off := g.pause, g.off
		g.b.mu.Unlock()
		if off || sleep(g.b.life, pause) != nil {
			return
		}
		resp, err := g.b.get(g.b.life, clientv3.OpGet(g.e.name))
		if err == nil {
			g.found(resp)
			return
		}
	}
}

// found goes on with what the store has.
func (g *guard) found(resp *clientv3.GetResponse) {
	switch {
	case len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != g.e.create:
		g.lose(errEntryGone)
	case !g.e.ours(resp.Kvs[0].Value):
		g.lose(errBroken)
	default:
		g.b.mu.Lock()
		defer g.b.mu.Unlock()
		if !g.off {
			g.begin(resp.Header.Revision + 1)
		}
	}
}

var (
	errEntryGone = errors.New("etcd: the entry is gone")
	errBroken    = errors.New("etcd: the hold was broken")
)

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
