package limits

import (
	"cmp"
	"slices"
	"time"

	"github.com/coordgo/coord/driver"
)

// bucketView is a token bucket as it stands at some time under some limit,
// without changing the state.
//
// The debt drains by rate credits per microsecond. A permit is there when the
// debt is at most cap afterwards; a reservation raises the debt above cap, and
// falls due when it has drained to cap.
type bucketView struct {
	at, lag         int64
	rate, unit, cap int64
	debt            int64
	blind           int64
}

func (s *State) bucketAt(l driver.Limit, now int64) bucketView {
	var v bucketView
	v.rate, v.unit = l.Refill()
	v.cap = int64(l.Burst) * v.unit // at most 2^52, by Normal
	if s.kind != bucketed {
		v.at = clamp(now)
		return v
	}
	v.at, v.lag = s.ratchet(now)
	v.blind = s.blind
	v.debt = s.debt
	if s.unit != v.unit {
		v.debt = mulMax(ceilDiv(s.debt, s.unit), v.unit)
	}
	// A lowered burst lowers the debt, but not what reservations hold beyond
	// it. Done as of the last grant, so that a denied caller's wait is not
	// prolonged by asking.
	v.debt = min(v.debt, v.beyond(v.cap, max(s.due-s.last, 0)))
	v.debt = drain(v.debt, v.rate, v.at-s.last)
	return v
}

// drain is debt after us microseconds of refill. Time beyond what empties it is
// cut off before multiplying.
func drain(debt, rate, us int64) int64 {
	if us >= ceilDiv(debt, rate) {
		return 0
	}
	return debt - rate*us
}

// beyond is base plus the refill of us microseconds, at most maxExact.
func (v *bucketView) beyond(base, us int64) int64 {
	return min(base+mulMax(v.rate, us), maxExact)
}

// furthest is how far ahead permits can be due, in microseconds: as far as the
// debt and the time are exact.
func (v *bucketView) furthest() int64 {
	return min((maxExact-v.cap)/v.rate, maxExact-v.at)
}

// aheadOf is how far an ask may reserve on the ratcheted clock: less by what
// the caller has to wait for that clock.
func (v *bucketView) aheadOf(maxDelay time.Duration) int64 {
	return min(max(maxDelay.Microseconds()-v.lag, 0), v.furthest())
}

// retryAfter is how long until n permits are granted, at most maxDelay ahead.
func (v *bucketView) retryAfter(n int64, maxDelay time.Duration) int64 {
	missing := v.debt - v.cap + n*v.unit
	if missing <= 0 {
		return 0
	}
	ahead := min(maxDelay.Microseconds(), v.furthest())
	return max(ceilDiv(missing, v.rate)-ahead+v.lag, 0)
}

// resetAfter is how long until the bucket is full.
func (v *bucketView) resetAfter() int64 {
	if v.debt == 0 {
		return 0
	}
	return ceilDiv(v.debt, v.rate) + v.lag
}

func (s *State) takeBucket(l driver.Limit, now int64, a driver.Ask) (out driver.TakenOne, changed bool) {
	v := s.bucketAt(l, now)
	room := v.cap + v.rate*v.aheadOf(a.MaxDelay) - v.debt
	n := min(int64(a.N), max(room, 0)/v.unit)
	if n > 0 && n >= int64(a.Min) {
		// While the debt before them drains, the refill goes there: spent
		// until then, the permits count as if spent at once. Later the bucket
		// would have refilled for them before they were spent.
		valid := v.debt / v.rate
		v.debt += n * v.unit
		changed = true
		out.N = int(n)
		var due int64
		if v.debt > v.cap {
			wait := ceilDiv(v.debt-v.cap, v.rate)
			due, valid = v.at+wait, max(valid, wait)
			out.Delay = micros(wait + v.lag)
		}
		out.ValidFor = micros(valid)
		s.storeBucket(&v, a.ID, n, due)
	} else {
		out.RetryAfter = micros(v.retryAfter(max(int64(a.Min), 1), a.MaxDelay))
	}
	out.Remaining = int(max(v.cap-v.debt, 0) / v.unit)
	out.ResetAfter = micros(v.resetAfter())
	return out, changed
}

// storeBucket stores v, and records n permits of id if they fall due later.
func (s *State) storeBucket(v *bucketView, id string, n, due int64) {
	if s.kind != bucketed {
		*s = State{kind: bucketed}
	}
	s.last, s.debt, s.unit = v.at, v.debt, v.unit
	s.prune(v.at)
	if due == 0 {
		return
	}
	// Those that cannot be given back count too: they bound what a refund of
	// an earlier one may free.
	s.due = max(s.due, due)
	if dropped := s.remember(record{id: id, n: n, at: due}); dropped.at > s.blind {
		s.blind = dropped.at
	}
}

func (s *State) refundBucket(l driver.Limit, now int64, id string, n int64) (changed bool) {
	v := s.bucketAt(l, now)
	if s.kind != bucketed {
		return false
	}
	r := s.claim(id, v.at)
	if r == nil {
		return false
	}
	if v.at < v.blind {
		return true // used up, for nothing: see freed
	}
	reserved := v.reserved(s)
	r.n -= min(n, r.n)
	v.debt = v.freed(s, reserved)
	s.last, s.debt, s.unit = v.at, v.debt, v.unit
	s.due = 0
	for i := range s.records.len() {
		if r := s.records.at(i); r.n > 0 && r.at > v.at {
			s.due = max(s.due, r.at)
		}
	}
	return true
}

// reserved is the credits of the reservations that are not due yet.
func (v *bucketView) reserved(s *State) (credits int64) {
	for i := range s.records.len() {
		if r := s.records.at(i); r.at > v.at {
			credits = min(credits+mulMax(r.n, v.unit), maxExact)
		}
	}
	return credits
}

// freed is the debt that has to stay when reservations are given back, out of
// reserved credits in all.
//
// Giving all back would be too much: with a burst of 1 at 1 per second and
// reservations due in 1 s and 2 s, the next caller after a cancellation of the
// first would be due in 2 s too, beside the second. What has to stay is the
// least debt that, draining in a straight line, is nowhere below the debt that
// the remaining reservations cause when they are spent as they fall due; then
// a later grant, which keeps that line at or below cap, keeps the bucket's
// bound. Whatever an earlier refund held back so is free as soon as the
// reservation that it was held back for is given back or spent.
func (v *bucketView) freed(s *State, reserved int64) int64 {
	var rest []record
	for i := range s.records.len() {
		if r := s.records.at(i); r.at > v.at && r.n > 0 {
			rest = append(rest, *r)
		}
	}
	slices.SortFunc(rest, func(a, b record) int { return cmp.Compare(a.at, b.at) })
	// What was already spent is at most the debt less the reservations, and
	// at most cap, as in any bucket.
	level := min(max(v.debt-reserved, 0), v.cap)
	need, at := level, v.at
	for _, r := range rest {
		level = min(drain(level, v.rate, r.at-at)+mulMax(r.n, v.unit), maxExact)
		need = max(need, v.beyond(level, r.at-v.at))
		at = r.at
	}
	return min(v.debt, need)
}
