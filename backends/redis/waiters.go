package redis

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// waiters are the calls of Lock of one client that wait. They share one connection on which the server
// sends messages (on a cluster one to each master concerned), and one goroutine that keeps their places
// in the queues. Both begin with the first wait and end with Close.
type waiters struct {
	b      *backend
	pushes bool          // the server may send messages
	only   *subscription // that of a client of one server; on a cluster one without a channel

	// heartbeatEvery, maxSilence and offerLeast; tests change them.
	every, silence, least time.Duration

	joined     chan struct{} // signalled when there are waiters again
	refreshNow chan struct{} // signalled to send a heartbeat at once

	mu            sync.Mutex
	begun         bool // it listens, and sends heartbeats
	last          uint64
	byNumber      map[uint64]*waiter
	subscriptions map[string]*subscription // by the address of the master of a cluster
	idle          bool                     // nobody waits, and no heartbeats are sent
	latency       time.Duration            // of recent requests; 0 if it is not known
	warned        bool
	// refreshing has the servers to which a heartbeat is in progress, and whether another one
	// follows at once.
	refreshing map[string]bool
}

// channelPrefix is common to the channels of all clients, for access lists.
const channelPrefix = "coord:wake:"

func newChannel() string {
	var random [8]byte
	rand.Read(random[:])
	return channelPrefix + hex.EncodeToString(random[:])
}

func (ws *waiters) init(b *backend, pushes bool) {
	ws.b, ws.pushes = b, pushes
	channel := noChannel
	if pushes && b.cluster == nil {
		channel = newChannel()
	}
	ws.only = ws.newSubscription(b.client, "", channel)
	ws.joined, ws.refreshNow = make(chan struct{}, 1), make(chan struct{}, 1)
	ws.every, ws.silence, ws.least = heartbeatEvery, maxSilence, offerLeast
	ws.byNumber, ws.subscriptions, ws.idle = map[uint64]*waiter{}, map[string]*subscription{}, true
	ws.refreshing = map[string]bool{}
}

// join makes a waiter, and begins to listen and to send heartbeats if nobody waited before.
func (ws *waiters) join(lock string, r driver.Request) (*waiter, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.b.calls.Closed() {
		return nil, driver.ErrClosed
	}
	if !ws.begun {
		ws.start()
	}
	ws.last++
	w := &waiter{n: ws.last, lock: lock, id: r.ID, waiters: ws, notified: make(chan struct{}, 1)}
	if ws.b.cluster == nil {
		w.sub = ws.only
	}
	ws.byNumber[w.n] = w
	if ws.idle {
		ws.idle = false
		signal(ws.joined)
	}
	return w, nil
}

// start begins to listen and to send heartbeats. ws.mu is held.
func (ws *waiters) start() {
	ws.begun = true
	ws.b.calls.Go(func() { ws.heartbeats(ws.b.calls.Life()) })
	if ws.only.channel != noChannel {
		ws.listen(ws.only)
	}
}

// listen keeps a subscription until Close.
func (ws *waiters) listen(e *subscription) {
	ws.b.calls.Go(func() { e.listen(ws.b.calls.Life()) })
}

// leave removes a waiter whose call of Lock has ended. Its place gets no more heartbeats.
func (ws *waiters) leave(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.byNumber, w.n)
}

// signal does not block. A signal that was not read yet is as good as two.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
