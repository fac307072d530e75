// Package settle takes content that is looked at now and then when it has changed and come to rest. Files are often
// written in several steps: what has been the same for two looks is whole.
package settle

import (
	"context"
	"time"
)

// Every calls look once in each period until ctx ends. It panics if period is not above zero.
func Every(ctx context.Context, period time.Duration, look func()) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			look()
		}
	}
}

// Watch is what was seen of some content, which is compared by a T: a sum of it, which is never zero. Make it with [From].
type Watch[T comparable] struct {
	seen    T    // at the last look
	refused T    // what could not be taken last
	away    bool // it could not be read at the last look
	wrong   bool // the last report was an error
}

// From is the Watch of content that is in force.
func From[T comparable](now T) Watch[T] { return Watch[T]{seen: now} }

// Look is a look at the content, or err, if it could not be read. It takes content that rests, is not in force, and was not
// refused before. report says whether there is news: it was taken or refused, cannot be read any more, or is what is in
// force again after an error, which is then nil.
func (w *Watch[T]) Look(now T, err error, inForce T, take func() error) (report bool, _ error) {
	if err != nil {
		report, w.away, w.wrong = !w.away, true, true
		return report, err
	}
	rests := now == w.seen
	w.seen, w.away = now, false
	if !rests || now == w.refused {
		return false, nil
	}
	var none T
	w.refused = none
	if now == inForce {
		report, w.wrong = w.wrong, false
		return report, nil
	}
	if err = take(); err != nil {
		w.refused = now
	}
	w.wrong = err != nil
	return true, err
}
