package zookeeper

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

// task is requests that a goroutine makes while another waits for it.
type task interface {
	// do makes the requests, and keeps their result.
	do()
	// late is called after do if nobody waits any more.
	late()
}

// pending is a task that a goroutine runs. Once its waiter has the result it is used again.
type pending struct {
	task  task
	state atomic.Int32
	done  chan struct{}
	look  *time.Timer
}

// A task is done, or nobody waits for it any more; whichever is first.
const (
	underWay int32 = iota
	done
	abandoned
)

var pool = sync.Pool{New: func() any {
	p := &pending{done: make(chan struct{}, 1), look: time.NewTimer(downLook)}
	p.look.Stop()
	return p
}}

// reuse gives back one that is done. Nobody else knows it any more.
func (p *pending) reuse() {
	p.look.Stop()
	p.task = nil
	pool.Put(p)
}

func (p *pending) run() {
	p.task.do()
	if p.state.CompareAndSwap(underWay, done) {
		p.done <- struct{}{}
		return
	}
	p.task.late()
}

// send runs a task, and waits until it is done or ctx ends. An error says that it was not begun, or with
// errLeft that it is under way: then it belongs to others.
func (b *backend) send(ctx context.Context, t task) error {
	if _, err := b.await(ctx); err != nil {
		return err
	}
	p := pool.Get().(*pending)
	p.state.Store(underWay)
	p.task = t
	if b.wire == nil {
		go p.run() // the application's connection may outlive this backend
	} else if !b.start(p.run) {
		return driver.ErrClosed
	}
	p.look.Reset(downLook)
	var err error
	for err == nil {
		select {
		case <-p.done:
			p.reuse()
			return nil
		case <-ctx.Done():
			err = ctx.Err()
		case <-b.closing:
			err = errClosing
		case <-p.look.C:
			// A request that was handed in while the connection broke waits in
			// the library for the next one, however long there is none. It is sent then.
			if b.wire != nil && b.conn.State() != zk.StateHasSession {
				err = b.wire.unreachable()
			}
			p.look.Reset(downLook)
		}
	}
	if p.state.CompareAndSwap(underWay, abandoned) {
		p.look.Stop()
		return fmt.Errorf("%w: %w", errLeft, err)
	}
	<-p.done
	p.reuse()
	return nil
}
