package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// line is those calls of Lock of one client that wait. It has one connection, or on a
// cluster one to each master concerned, on which the server tells of grants, and one
// goroutine that keeps all their places alive; they begin with the first wait and end
// with Close.
type line struct {
	b      *backend
	pushes bool          // the server lets itself be listened to
	only   *subscription // that of a client of one server; else one without a channel

	// keepEvery, maxSilence and patienceLeast, which tests change.
	every, silence, least time.Duration

	stir   chan struct{}   // signalled when there are waiters again
	asap   chan struct{}   // signalled when places are to be looked at now
	ctx    context.Context // that of start, until cancel
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu            sync.Mutex
	last          uint64
	waiters       map[uint64]*waiter
	subscriptions map[string]*subscription // by the address of the master of a cluster
	idle          bool                     // the keeper sleeps, because nobody waits
	away          time.Duration            // how long the server lately took to answer; 0 if that is not known
	warned        bool
	// refreshing has the servers at which places are being looked at, and whether that is
	// to be done again at once.
	refreshing map[string]bool
}

// channelPrefix is that of the channels of all clients, for access lists.
const channelPrefix = "coord:wake:"

func newChannel() string {
	var random [8]byte
	rand.Read(random[:])
	return channelPrefix + hex.EncodeToString(random[:])
}

func (l *line) init(b *backend, pushes bool) {
	l.b, l.pushes = b, pushes
	channel := noChannel
	if pushes && b.cluster == nil {
		channel = newChannel()
	}
	l.only = l.newSubscription(b.client, "", channel)
	l.stir, l.asap = make(chan struct{}, 1), make(chan struct{}, 1)
	l.every, l.silence, l.least = keepEvery, maxSilence, patienceLeast
	l.waiters, l.subscriptions, l.idle = map[uint64]*waiter{}, map[string]*subscription{}, true
	l.refreshing = map[string]bool{}
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
	w := &waiter{n: l.last, lock: lock, id: r.ID, line: l, stir: make(chan struct{}, 1)}
	if l.b.cluster == nil {
		w.sub = l.only
	}
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
	l.ctx, l.cancel = ctx, cancel
	l.wg.Go(func() { l.keep(ctx) })
	if l.only.channel != noChannel {
		l.wg.Go(func() { l.only.listen(ctx) })
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
	var pubsubs []*redis.PubSub
	for _, e := range append(slices.Collect(maps.Values(l.subscriptions)), l.only) {
		if e.pubsub != nil {
			pubsubs = append(pubsubs, e.pubsub)
		}
	}
	l.mu.Unlock()
	if !begun {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, p := range pubsubs {
			_ = p.Close()
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

// place is what the server keeps of a waiter: for how long it is to be offered the lock, its
// number, and the channel on which it is told.
func (w *waiter) place(e *subscription) string {
	return strconv.FormatInt(w.line.patience().Milliseconds(), 10) + " " + strconv.FormatUint(w.n, 10) + " " + e.channel
}

// How long a client is to be offered a lock. While it does not answer, everybody waits; one that
// answers too late has to wait for its next turn.
const (
	patienceLeast = 50 * time.Millisecond  // for a client that is near, but kept from its processor
	patienceFirst = 200 * time.Millisecond // is added while it is not known how far away the server is
	patienceMost  = time.Second
)

// answered notes how long the server took to answer. What is shorter than before counts at once, what is
// longer little by little: the server or this process may have been frozen.
func (l *line) answered(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away == 0 || took < l.away {
		l.away = took
	} else {
		l.away += (took - l.away) / 8
	}
}

// patience allows for the way of the offer and of the answer, twice.
func (l *line) patience() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away == 0 {
		return l.least + patienceFirst
	}
	return l.least + min(2*l.away, patienceMost)
}

// placed notes that w is in line. What it was told before a subscription that was
// confirmed since it asked, it has not heard: then it asks again.
func (l *line) placed(w *waiter, heard subEpoch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.inLine, w.sub = true, heard.sub
	if e := w.sub; e.ups != heard.ups || e.gone {
		w.tell(true, 0)
	}
}

// message takes in what a script has published, see lua/offer.lua.
func (s *subscription) message(payload string) {
	l := s.line
	number, rest, more := strings.Cut(payload, " ")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return
	}
	var ms int64
	if more {
		ms, _ = strconv.ParseInt(rest, 10, 64) // else it is news of another kind
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.waiters[n]
	switch {
	case w == nil: // it has left
	case ms > 0:
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
