package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// watch is a watch on a node, for all who want to know: the library never takes a watch back, so one per
// path is enough. It is on the data of a hold's node, or on the children of a guard.
type watch struct {
	done  chan struct{} // closed after event is set, or when the backend closes
	event zk.Event
	then  []func(zk.Event) // guarded by backend.mu
}

// afterEvent has fn called with the event of w. It is not called when the backend closes.
func (b *backend) afterEvent(w *watch, fn func(zk.Event)) {
	b.mu.Lock()
	select {
	case <-w.done:
	default:
		w.then = append(w.then, fn)
		fn = nil
	}
	b.mu.Unlock()
	if fn != nil && !b.calls.Closed() {
		fn(w.event)
	}
}

// watching reports whether there are watches.
func (b *backend) watching() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.watches) > 0
}

// watchNode gives the watch of a node, and its Stat if it was asked for now. ErrNoNode leaves no watch behind.
func (b *backend) watchNode(path string, children bool) (w *watch, stat *zk.Stat, err error) {
	b.mu.Lock()
	w = b.watches[path]
	b.mu.Unlock()
	if w != nil {
		return w, nil, nil
	}
	if b.conn.State() != zk.StateHasSession {
		return nil, nil, zk.ErrConnectionClosed
	}
	var events <-chan zk.Event
	if !children {
		_, stat, events, err = b.conn.GetW(path)
	} else if _, stat, events, err = b.conn.ChildrenW(path); errors.Is(err, zk.ErrNoNode) { // then it watches for one
		_, stat, events, err = b.conn.ExistsW(path)
	}
	if err != nil {
		return nil, nil, err
	}
	w = &watch{done: make(chan struct{})}
	b.mu.Lock()
	b.watches[path] = w
	b.mu.Unlock()
	started := b.calls.Go(func() {
		closing := false
		select {
		case w.event = <-events:
		case <-b.calls.Life().Done():
			closing = true
		}
		b.mu.Lock()
		if b.watches[path] == w {
			delete(b.watches, path)
		}
		then := w.then
		close(w.done)
		b.mu.Unlock()
		for _, fn := range then {
			if !closing {
				fn(w.event)
			}
		}
	})
	if !started {
		close(w.done)
	}
	return w, stat, nil
}

// observe has the node watched, so that its loss is known at once. Between the request for the
// watch and its event no goroutine of the hold's own waits.
func (e *entry) observe(node string) {
	b, ctx := e.b, context.Background()
	b.calls.Go(func() {
		for {
			var stat *zk.Stat
			w, err := call(ctx, b, func() (w *watch, err error) {
				w, stat, err = b.watchNode(node, false)
				return w, err
			}, nil)
			switch {
			case b.calls.Closed():
				return
			case errors.Is(err, zk.ErrNoNode):
				e.gone(node, errRemoved)
				return
			case err == nil && stat != nil && stat.Version != 0:
				e.breakNews(node)
				return
			case err == nil:
				b.afterEvent(w, func(ev zk.Event) { e.heard(node, ev) })
				return
			}
			// There is no connection: renewals tell until there is one.
			if n, _ := e.held(); n != node || b.calls.Pause(ctx, b.timeout()/10) != nil {
				return
			}
		}
	})
}

// heard takes in what became of the node.
func (e *entry) heard(node string, ev zk.Event) {
	switch {
	case ev.Type == zk.EventNodeDataChanged:
		e.breakNews(node)
	case ev.Type == zk.EventNodeDeleted:
		e.gone(node, errRemoved)
	case errors.Is(ev.Err, zk.ErrSessionExpired):
		e.gone(node, errNewSession)
	default:
		if n, _ := e.held(); n == node {
			e.observe(node)
		}
	}
}

var (
	errRemoved = errors.New("zookeeper: its node was removed")
	errBroken  = errors.New("zookeeper: an operator broke the lock")

	errShortened = errors.New("zookeeper: a server resumed the session with a shorter timeout")
)

// gone tells the core of a node that was removed, unless we did it.
func (e *entry) gone(node string, cause error) {
	if e.dropNode(node) {
		e.tell(cause)
	}
}

func (e *entry) breakNews(node string) {
	if e.revoked(node) {
		e.tell(errBroken)
	}
}

func (e *entry) tell(cause error) {
	e.b.mu.Lock()
	fn := e.b.lost
	if e.shared {
		fn = e.b.lostShared
	}
	e.b.mu.Unlock()
	if fn != nil {
		fn(e.key, e.id, cause)
	}
}
