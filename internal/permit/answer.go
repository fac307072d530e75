package permit

import (
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// What a queue of waits makes of the store's answers. waitQueues.mu is held in all of it.

// spend serves w of what was taken in advance.
func (q *waitQueue) spend(w *waiter) bool {
	if _, ok := q.advance.spend(q.key, w.n, w.n); !ok {
		return false
	}
	q.remove(w)
	w.answer(FromPrefetch, nil)
	return true
}

// failed tells front that the store did not answer. Permits of those who are told so count as spent.
func (q *waitQueue) failed(front []*waiter, err error) {
	for _, w := range front {
		if w.place == nil { // it has left, and what it asked for may be granted
			q.refund(w)
			continue
		}
		if errs.HasEnded(w.ctx) {
			q.refund(w)
		}
		q.remove(w)
		w.answer(FromStore, err)
	}
}

// answered takes in what front was granted, and what not.
func (q *waitQueue) answered(front []*waiter, asks []driver.Ask, answers []driver.Granted) {
	now, head := time.Now(), true
	q.from, q.retryAt = time.Time{}, time.Time{}
	for i, w := range front {
		w.asked = false
		g := &answers[i]
		switch left := w.place == nil; {
		case left && g.Delay > 0:
			q.refund(w)
		case left:
		case g.N > 0:
			q.grant(w, now, g.Delay)
		case head && q.spend(w): // it was taken meanwhile, out of what is missing now
		default:
			w.denied = true
			late := g.RetryAfter + asks[i].MaxDelay
			if w.tooLate(now.Add(late)) {
				q.remove(w)
				w.retry = late
				w.answer(FromStore, errTooLate)
				continue
			}
			if head && (i == 0 || !q.reserves) { // else it may reserve further ahead as the first
				q.retryAt, q.retryN = now.Add(g.RetryAfter), w.n
				q.from = now.Add(late - q.refill(w.n))
			}
			head = false
		}
	}
}

// grant serves w, now or when its permits are due.
func (q *waitQueue) grant(w *waiter, now time.Time, delay time.Duration) {
	q.remove(w)
	if delay > 0 {
		w.due = now.Add(delay)
		if last := q.ahead.Back(); last != nil && w.due.Before(last.Value.(*waiter).due) {
			w.due = last.Value.(*waiter).due
		}
		w.place = q.ahead.PushBack(w)
		q.from = w.due.Add(-q.trip) // the store told it earlier, by so much at most
	}
	w.answer(FromStore, nil)
}

// refill is how long a bucket takes to refill n permits. A window may have any number at once.
func (q *waitQueue) refill(n int) time.Duration {
	l := &q.key.limit
	if l.Algorithm != driver.TokenBucket {
		return 0
	}
	return time.Duration(min(float64(n)/float64(l.Rate)*float64(l.Per), float64(driver.MaxPer)))
}

// servedAt is when the last of n permits can be there, at the earliest; zero: not known.
func (q *waitQueue) servedAt(n int) time.Time {
	if q.from.IsZero() {
		return q.from
	}
	return q.from.Add(q.refill(n))
}

// tooLate reports whether permits at that time would come too late.
func (w *waiter) tooLate(at time.Time) bool {
	return !w.deadline.IsZero() && w.deadline.Before(at)
}

// sendAway tells those who are certain to be too late.
func (q *waitQueue) sendAway() {
	if q.earliest.IsZero() || !q.earliest.Before(q.servedAt(q.wanted)) {
		return
	}
	n, earliest := 0, time.Time{}
	for e := q.waiting.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		n += w.n
		if at := q.servedAt(n); w.tooLate(at) {
			n -= w.n
			q.remove(w)
			w.retry = time.Until(at)
			w.answer(FromStore, errTooLate)
			continue
		}
		if !w.deadline.IsZero() && (earliest.IsZero() || w.deadline.Before(earliest)) {
			earliest = w.deadline
		}
	}
	q.earliest = earliest
}

// learn tells the memory of denials, and what takes permits in advance, of an answer.
func (q *waitQueue) learn(taken *driver.Taken) {
	granted := 0
	for _, g := range taken.Asks {
		granted += g.N
	}
	if granted > 0 {
		q.denied.drop(q.key.key)
	}
	last := driver.TakenOne{Granted: taken.Asks[len(taken.Asks)-1], Remaining: taken.Remaining, ResetAfter: taken.ResetAfter}
	q.advance.note(q.key, granted, &last)
}

// refund gives back what w reserved, or may have. over is closed when that is done.
func (q *waitQueue) refund(w *waiter) (over <-chan struct{}) {
	if w.id == "" {
		return nil
	}
	q.from = time.Time{}
	q.returning++
	return q.refunds.start(q.key, w.id, w.n, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.returning--
		q.wake()
	})
}

// passed takes w out of those who are ahead: it is due, or has been cancelled.
func (q *waitQueue) passed(w *waiter, cancelled bool) (over <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ahead.Remove(w.place)
	if cancelled {
		over = q.refund(w)
	}
	q.wake()
	return over
}
