package redis

import (
	"sync"
	"time"
)

// A hold that the core hands on inside the client must not overtake a fair waiter of
// another. So a client that listens says with each lock that it takes where, and who comes
// to wait fairly tells it there. A lock that was taken while nobody listened cannot be
// told of: its grant then says at once that someone fair may wait.

// NotifyFair implements driver.FairNotifier.
func (b *backend) NotifyFair(fn func(key string)) { b.line.fair.Store(&fn) }

// fairWaits passes a notice on.
func (l *line) fairWaits(lock string) {
	if fn := l.fair.Load(); fn != nil {
		(*fn)(nameOf(lock))
	}
}

// hearing is whether, and since which subscription, a client hears what it is told.
type hearing struct {
	ups    int
	up     bool
	suffix any // for acquire.lua; boxed once
}

// hearing is that of now.
func (l *line) hearing() hearing {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := hearing{ups: l.ups, up: l.up, suffix: noSuffix}
	if l.up {
		h.suffix = l.suffix
	}
	return h
}

var noSuffix any = ""

// hears reports whether the client has heard all that it was told since then, or does not care.
func (l *line) hears(since hearing) bool {
	if l.fair.Load() == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return since.up && l.up && l.ups == since.ups
}

// sameAgain is how soon after a lock was given back it is taken again by a goroutine that
// has waited for it inside the client.
const sameAgain = 5 * time.Millisecond

// lastLock is the lock that was given back last.
type lastLock struct {
	mu   sync.Mutex
	lock string
	at   time.Time
}

// gaveBack and took notice that goroutines of the client wait for each other: then it
// begins to listen, so that their next locks can be handed on.
func (l *line) gaveBack(lock string) {
	if l.listens.Load() || l.fair.Load() == nil {
		return
	}
	l.gone.mu.Lock()
	defer l.gone.mu.Unlock()
	l.gone.lock, l.gone.at = lock, time.Now()
}

func (l *line) took(lock string) {
	if l.listens.Load() || l.fair.Load() == nil {
		return
	}
	l.gone.mu.Lock()
	again := l.gone.lock == lock && time.Since(l.gone.at) < sameAgain
	l.gone.mu.Unlock()
	if !again {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel == nil && !l.b.closed() {
		l.start()
	}
}
