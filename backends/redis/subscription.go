package redis

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// subscription is one to a channel of this client alone. A client has one. On a cluster it has one on each master that
// has locks for which it waits: a message from another node goes over the connection between the nodes, where a delayed
// acknowledgement can hold it up for 40 ms. It still arrives that way after a slot has moved.
type subscription struct {
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

// noChannel stands for the channel of a waiter that gets no messages.
const noChannel = "-"

func (l *line) newSubscription(node subscriber, addr, channel string) *subscription {
	return &subscription{line: l, node: node, addr: addr, channel: channel}
}

// subscriptionOf gives the one that gets the messages about lock. On a cluster it is made when it is first needed. While
// the master of lock is not known, it is one without a channel.
func (l *line) subscriptionOf(ctx context.Context, lock string) *subscription {
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
	e := l.subscriptions[addr]
	switch {
	case e != nil:
		return e
	case l.b.closed() || l.cancel == nil:
		return l.only
	}
	e = l.newSubscription(node, addr, newChannel())
	l.subscriptions[addr] = e
	l.wg.Go(func() { e.listen(l.ctx) })
	return e
}

// lose forgets a subscription whose node has left the cluster. Waiters that relied on it ask again.
func (l *line) lose(e *subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.gone = true
	delete(l.subscriptions, e.addr)
	for _, w := range l.waiters {
		if w.sub == e {
			w.tell(true, 0)
		}
	}
}

// subEpoch tells apart the times between two losses of a subscription. Messages are lost from one to the next.
type subEpoch struct {
	sub *subscription // nil: the client has none
	ups int
}

// epoch gives the present one.
func (s *subscription) epoch() subEpoch {
	s.line.mu.Lock()
	defer s.line.mu.Unlock()
	return subEpoch{sub: s, ups: s.ups}
}

// isUp reports whether there are subscriptions, and all are confirmed.
func (l *line) isUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.subscriptions {
		if !e.up {
			return false
		}
	}
	return l.only.up || len(l.subscriptions) > 0
}
