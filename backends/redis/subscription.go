package redis

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// subscription is a subscription to a channel that only this client uses. A client has one. On a cluster it has one on
// each master of the locks for which it waits: a message from another node takes the connection between the nodes, where
// a delayed acknowledgement can hold it up for 40 ms. After a slot has moved, messages still arrive that way.
type subscription struct {
	waiters *waiters
	node    subscriber
	addr    string // of a master of a cluster
	channel string

	// Guarded by waiters.mu.
	up   bool // the server has confirmed the subscription
	ups  int  // how often
	gone bool // its node has left the cluster
}

// subscriber is a client, or the client of one node.
type subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// noChannel stands for the channel of a waiter that gets no messages.
const noChannel = "-"

func (ws *waiters) newSubscription(node subscriber, addr, channel string) *subscription {
	return &subscription{waiters: ws, node: node, addr: addr, channel: channel}
}

// subscriptionOf returns the subscription for messages about lock. On a cluster it is made when it is first needed. While
// the master of lock is not known, it is one without a channel.
func (ws *waiters) subscriptionOf(ctx context.Context, lock string) *subscription {
	if ws.b.cluster == nil || !ws.pushes {
		return ws.only
	}
	node, err := ws.b.cluster.MasterForKey(ctx, lock)
	if err != nil {
		return ws.only
	}
	addr := node.Options().Addr
	ws.mu.Lock()
	defer ws.mu.Unlock()
	e := ws.subscriptions[addr]
	switch {
	case e != nil:
		return e
	case ws.b.calls.Closed() || !ws.begun:
		return ws.only
	}
	e = ws.newSubscription(node, addr, newChannel())
	ws.subscriptions[addr] = e
	ws.listen(e)
	return e
}

// lose forgets a subscription whose node has left the cluster. Waiters that relied on it ask again.
func (ws *waiters) lose(e *subscription) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	e.gone = true
	delete(ws.subscriptions, e.addr)
	for _, w := range ws.byNumber {
		if w.sub == e {
			w.notify(true, 0)
		}
	}
}

// subEpoch counts the confirmations of a subscription. Between two of them messages may be lost.
type subEpoch struct {
	sub *subscription // nil: the client has none
	ups int
}

// epoch returns the current one.
func (s *subscription) epoch() subEpoch {
	s.waiters.mu.Lock()
	defer s.waiters.mu.Unlock()
	return subEpoch{sub: s, ups: s.ups}
}

// isUp reports whether there are subscriptions, and all are confirmed.
func (ws *waiters) isUp() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, e := range ws.subscriptions {
		if !e.up {
			return false
		}
	}
	return ws.only.up || len(ws.subscriptions) > 0
}
