package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// line is those calls of Lock of one client that wait. It has one connection, on
// which the server tells of grants, and one goroutine that keeps all their places
// alive; both begin with the first wait and end with Close.
type line struct {
	b       *backend
	pushes  bool   // the server lets itself be listened to
	channel string // on which this client alone listens, "-" for none

	// keepEvery and maxSilence, which tests change.
	every, silence time.Duration

	fair    atomic.Pointer[func(key string)] // of NotifyFair
	suffix  any                              // the channel, for acquire.lua
	listens atomic.Bool                      // start was called
	gone    lastLock

	stir   chan struct{} // signalled when there are waiters again
	asap   chan struct{} // signalled when places are to be looked at now
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	last    uint64
	waiters map[uint64]*waiter
	idle    bool // the keeper sleeps, because nobody waits
	up      bool // the server has confirmed the subscription
	ups     int  // how often
	pubsub  *redis.PubSub
	warned  bool
}

// channelPrefix is that of the channels of all clients, for access lists.
const channelPrefix = "coord:wake:"

func (l *line) init(b *backend, pushes bool) {
	l.b, l.pushes, l.channel = b, pushes, "-"
	if pushes {
		var random [8]byte
		rand.Read(random[:])
		l.channel = channelPrefix + hex.EncodeToString(random[:])
	}
	l.suffix = " " + l.channel
	l.stir, l.asap = make(chan struct{}, 1), make(chan struct{}, 1)
	l.every, l.silence = keepEvery, maxSilence
	l.waiters, l.idle = map[uint64]*waiter{}, true
}

// join makes a waiter, and sees to it that somebody listens and keeps its place.
func (l *line) join(lock string, r driver.Request) (*waiter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.b.closed() {
		return nil, driver.ErrClosed
	}
	if l.cancel == nil {
		l.start()
	}
	l.last++
	w := &waiter{n: l.last, lock: lock, id: r.ID, fair: r.Fair, line: l, news: make(chan struct{}, 1)}
	l.waiters[w.n] = w
	if l.idle {
		l.idle = false
		signal(l.stir)
	}
	return w, nil
}

// start begins to listen and to keep. l.mu is held.
func (l *line) start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.listens.Store(true)
	l.wg.Go(func() { l.keep(ctx) })
	if l.pushes {
		l.wg.Go(func() { l.listen(ctx) })
	}
}

// stop ends both. A connection that is being made to a server that is silent ends with
// its own timeout, behind the caller's back.
func (l *line) stop() {
	l.mu.Lock()
	begun := l.cancel != nil
	if begun {
		l.cancel()
	}
	pubsub := l.pubsub
	l.mu.Unlock()
	if !begun {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if pubsub != nil {
			_ = pubsub.Close()
		}
		l.wg.Wait()
	}()
	timer := time.NewTimer(closeWaits)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}

// leave: the call of Lock has ended. Its place in line is not kept alive any more.
func (l *line) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiters, w.n)
}

// place is what the server keeps of a waiter: whether it is fair, its number, and the
// channel on which it is told.
func (l *line) place(w *waiter) string {
	fair := "0 "
	if w.fair {
		fair = "1 "
	}
	return fair + strconv.FormatUint(w.n, 10) + " " + l.channel
}

// placed notes that w is in line. What it was told before a subscription that was
// confirmed since it asked, it has not heard: then it asks again.
func (l *line) placed(w *waiter, heard hearing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.inLine = true
	if l.ups != heard.ups {
		w.tell(true, 0)
	}
}

// message takes in what a script has published: "number" of a waiter that was granted, or
// "number ms" of one that is the first in line, or "!key" of a lock for which someone fair
// waits.
func (l *line) message(payload string) {
	if lock, isFair := strings.CutPrefix(payload, "!"); isFair {
		l.fairWaits(lock)
		return
	}
	number, left, isFirst := strings.Cut(payload, " ")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return
	}
	ms, err := strconv.ParseInt(left, 10, 64)
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.waiters[n]
	switch {
	case w == nil: // it has left
	case isFirst && err == nil && ms > 0:
		w.tell(false, leaseEnds(ms))
	default:
		w.tell(true, 0)
	}
}

// signal does not wait: one signal that was not read yet is as good as two.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
