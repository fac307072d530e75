package redis

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// ear is a subscription, to a channel of its own. A client has one; on a cluster it has one
// on each master that has locks for which it waits: a message
// from another node has to take the way between the nodes, where it can be held up for
// the 40 ms of a delayed acknowledgement. It still arrives that way when a slot has moved.
type ear struct {
	line    *line
	node    subscriber
	addr    string // of a master of a cluster
	channel string

	// Guarded by line.mu.
	up     bool // the server has confirmed the subscription
	ups    int  // how often
	pubsub *redis.PubSub
	gone   bool // its node has left the cluster
}

// subscriber is a client, or that of one node.
type subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// noChannel is that of those who are told nothing.
const noChannel = "-"

func (l *line) newEar(node subscriber, addr, channel string) *ear {
	return &ear{line: l, node: node, addr: addr, channel: channel}
}

// ear is the one that hears of lock. On a cluster it is made when it is first asked for;
// where it cannot be told which it is, it is one that hears nothing.
func (l *line) ear(ctx context.Context, lock string) *ear {
	if l.b.cluster == nil || !l.pushes {
		return l.only
	}
	node, err := l.b.cluster.MasterForKey(ctx, lock)
	if err != nil {
		return l.only
	}
	addr := node.Options().Addr
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.ears[addr]
	switch {
	case e != nil:
		return e
	case l.b.closed() || l.cancel == nil:
		return l.only
	}
	e = l.newEar(node, addr, newChannel())
	l.ears[addr] = e
	l.wg.Go(func() { e.listen(l.ctx) })
	return e
}

// lose forgets an ear whose node has left the cluster: who relied on it asks again.
func (l *line) lose(e *ear) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.gone = true
	delete(l.ears, e.addr)
	for _, w := range l.waiters {
		if w.ear == e {
			w.tell(true, 0)
		}
	}
}

// hearing is since which subscription a client hears what it is told.
type hearing struct {
	ear *ear // nil: it does not listen
	ups int
}

// hearing is that of now.
func (e *ear) hearing() hearing {
	e.line.mu.Lock()
	defer e.line.mu.Unlock()
	return e.hears()
}

// hears is hearing. line.mu is held.
func (e *ear) hears() hearing {
	return hearing{ear: e, ups: e.ups}
}

// isUp reports whether all ears hear, and there is one.
func (l *line) isUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.ears {
		if !e.up {
			return false
		}
	}
	return l.only.up || len(l.ears) > 0
}
