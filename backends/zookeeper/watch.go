package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// watch is a data watch on a node, for all who want to know: the library never takes
// a watch back, so one per path is enough.
type watch struct {
	done  chan struct{} // closed after event is set, or when the backend closes
	event zk.Event
}

// watchNode gives the watch of a node, and its Stat if it was asked for now.
// ErrNoNode leaves no watch behind.
func (b *backend) watchNode(path string) (*watch, *zk.Stat, error) {
	b.mu.Lock()
	w := b.watches[path]
	b.mu.Unlock()
	if w != nil {
		return w, nil, nil
	}
	if b.conn.State() != zk.StateHasSession {
		return nil, nil, zk.ErrConnectionClosed
	}
	_, stat, events, err := b.conn.GetW(path)
	if err != nil {
		return nil, nil, err
	}
	w = &watch{done: make(chan struct{})}
	b.mu.Lock()
	b.watches[path] = w
	b.mu.Unlock()
	started := b.start(func() {
		select {
		case w.event = <-events:
		case <-b.closing:
		}
		b.mu.Lock()
		if b.watches[path] == w {
			delete(b.watches, path)
		}
		b.mu.Unlock()
		close(w.done)
	})
	if !started {
		close(w.done)
	}
	return w, stat, nil
}

// observe has the node watched, so that its loss is known at once.
func (e *entry) observe(node string) {
	e.b.start(func() {
		for {
			w, stat, err := e.b.watchNode(node)
			switch {
			case errors.Is(err, zk.ErrNoNode):
				e.gone(node, errRemoved)
				return
			case err != nil:
				// There is no connection: renewals tell until there is one.
				if n, _ := e.held(); n != node || !e.b.pause(context.Background(), e.b.timeout()/10) {
					return
				}
				continue
			case stat != nil && stat.Version != 0:
				e.breakNews(node)
				return
			}
			<-w.done
			switch ev := w.event; {
			case ev.Type == zk.EventNodeDataChanged:
				e.breakNews(node)
				return
			case ev.Type == zk.EventNodeDeleted:
				e.gone(node, errRemoved)
				return
			case errors.Is(ev.Err, zk.ErrSessionExpired):
				e.gone(node, errNewSession)
				return
			}
			if n, _ := e.held(); n != node || e.b.isClosed() {
				return
			}
		}
	})
}

var (
	errRemoved = errors.New("zookeeper: its node was removed")
	errBroken  = errors.New("zookeeper: an operator broke the lock")
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
	e.b.mu.Unlock()
	if fn != nil {
		fn(e.key, e.id, cause)
	}
}
