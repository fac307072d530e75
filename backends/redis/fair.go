package redis

import (
	"context"

	"github.com/coordgo/coord/driver"
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

// hearing is what the client hears of a lock now.
func (l *line) hearing(ctx context.Context, lock string) hearing {
	if !l.listens.Load() {
		return hearing{suffix: noSuffix}
	}
	return l.ear(ctx, lock, false).hearing()
}

// hears reports whether the client has heard all that it was told since then, or does not care.
func (l *line) hears(since hearing) bool {
	if l.fair.Load() == nil {
		return true
	}
	if !since.up {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return since.ear.up && since.ear.ups == since.ups
}

// took begins to listen, if r has waited for lock inside the client, so that the next locks of
// those who wait there can be handed on.
func (l *line) took(ctx context.Context, lock string, r driver.Request, heard hearing) {
	if !r.Queued || heard.up || l.fair.Load() == nil {
		return
	}
	l.mu.Lock()
	if l.cancel == nil && !l.b.closed() {
		l.start()
	}
	l.mu.Unlock()
	l.ear(ctx, lock, true)
}
