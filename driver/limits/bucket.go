package limits

import (
	"cmp"
	"math/bits"
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
	debt            int64 // as the limit's burst caps it
	owed            int64 // the whole debt
}

// read makes v, which is zero, the view of s.
func (v *bucketView) read(s *State, l *driver.Limit, now int64) {
	if !s.bucketOf(l) {
		v.rate, v.unit = l.Refill()
		v.cap = int64(l.Burst) * v.unit // at most 2^52, by Normal
		v.at = clamp(now)
		return
	}
	v.rate, v.unit = s.rate, s.unit
	v.cap = int64(l.Burst) * v.unit
	v.at, v.lag, _ = s.ratchet(now, ceilDiv(v.cap, v.rate))
	v.debt, v.owed = s.debt-s.over, drain(s.debt, v.rate, v.at-s.last)
	if v.cap != s.cap {
		v.debt = v.seen(s.debt, s.beyondUntil()-s.last)
	}
	v.debt = drain(v.debt, v.rate, v.at-s.last)
}

// seen is what a burst sees of a debt: no more than itself, and what reservations and
// charges hold beyond it, for us microseconds more. It is asked at a grant, for
// a denied caller's wait is not to be prolonged by asking.
func (v *bucketView) seen(debt, us int64) int64 {
	return min(debt, v.beyond(v.cap, max(us, 0)))
}

// bucketOf reports whether s is a bucket that refills as fast as l: two products
// tell it sooner than a greatest common divisor.
func (s *State) bucketOf(l *driver.Limit) bool {
	if s.kind != bucketed {
		return false
	}
	hi, lo := bits.Mul64(uint64(s.rate), uint64(l.Per.Microseconds()))
	hi2, lo2 := bits.Mul64(uint64(l.Rate), uint64(s.unit))
	return hi == hi2 && lo == lo2
}

// drain is debt after us microseconds of refill.
func drain(debt, rate, us int64) int64 {
	hi, lo := bits.Mul64(uint64(rate), uint64(us))
	if hi != 0 || lo >= uint64(debt) {
		return 0
	}
	return debt - int64(lo)
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

// aheadOf is how far a request that may wait for us microseconds can reserve.
func (v *bucketView) aheadOf(us int64) int64 {
	if us <= 0 {
		return 0
	}
	return min(us, v.furthest())
}

// permits is how many whole permits the credits make.
func (v *bucketView) permits(credits int64) int64 {
	if credits < v.unit {
		return 0
	}
	return credits / v.unit
}

// retryAfter is how long until n permits are granted, at most maxDelay ahead.
func (v *bucketView) retryAfter(n int64, maxDelay time.Duration) int64 {
	missing := v.debt - v.cap + n*v.unit
	if missing <= 0 {
		return 0
	}
	return max(ceilDiv(missing, v.rate)-v.aheadOf(maxDelay.Microseconds())+v.lag, 0)
}

// clears is how long until nothing is left of a debt.
func (v *bucketView) clears(debt int64) int64 {
	if debt == 0 {
		return 0
	}
	return ceilDiv(debt, v.rate) + v.lag
}

func (s *State) takeBucket(out *driver.TakenOne, l *driver.Limit, now int64, a *driver.Ask) (changed bool) {
	var v bucketView
	v.read(s, l, now)
	// On the ratcheted clock the request can wait less, by what the caller has to
	// wait for that clock.
	room := v.cap + v.rate*v.aheadOf(a.MaxDelay.Microseconds()-v.lag) - v.debt
	n := int64(a.N)
	if n*v.unit > room {
		n = v.permits(room)
	}
	if n > 0 && n >= int64(a.Min) {
		// While the debt before them drains, the refill goes there: spent
		// until then, the permits count as if spent at once. Later the bucket
		// would have refilled for them before they were spent.
		valid := v.debt / v.rate
		if s.due > v.at { // a reservation may be given back, and the debt drains sooner
			valid = 0
		}
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
	out.Remaining = int(v.permits(v.cap - v.debt))
	out.ResetAfter = micros(v.clears(v.debt))
	return changed
}

// beyondUntil is until when reservations or charges hold the debt beyond a burst.
func (s *State) beyondUntil() int64 { return max(s.due, s.paid) }

// store makes v the state of the bucket, save for its reservations.
func (v *bucketView) store(s *State) {
	s.last, s.debt, s.over, s.cap, s.rate, s.unit = v.at, v.owed, v.owed-v.debt, v.cap, v.rate, v.unit
}

// storeBucket stores v after a grant of n permits to id, and records them if they
// fall due later.
func (s *State) storeBucket(v *bucketView, id string, n, due int64) {
	if s.kind != bucketed || s.rate != v.rate || s.unit != v.unit {
		*s = State{kind: bucketed}
	}
	// No more is spent at one time than was missing before there were reservations, or
	// than a burst and what it does not see of the debt.
	if s.due <= v.at {
		s.wide = v.owed
	}
	s.wide = max(s.wide, min(v.cap+v.owed+n*v.unit-v.debt, maxExact))
	v.owed = max(min(v.owed+n*v.unit, maxExact), v.debt)
	v.store(s)
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

func (s *State) refundBucket(l *driver.Limit, now int64, id string, n int64) (changed bool) {
	var v bucketView
	v.read(s, l, now)
	if v.owed == 0 {
		return false
	}
	r := s.claim(id, v.at)
	if r == nil {
		return false
	}
	if v.at < s.blind {
		return true // used up, for nothing: see freed
	}
	reserved, whole := v.reserved(s), v.debt == v.owed
	r.n -= min(n, r.n)
	v.owed = v.freed(s, reserved)
	s.due = 0
	for i := range s.records.len() {
		if r := s.records.at(i); r.n > 0 && r.at > v.at {
			s.due = max(s.due, r.at)
		}
	}
	if v.debt = min(v.debt, v.seen(v.owed, s.beyondUntil()-v.at)); whole { // to the credit: when it is due is rounded
		v.debt = v.owed
	}
	v.store(s)
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
	// What was already spent is at most the debt less the reservations.
	return min(v.owed, v.needed(s, min(max(v.owed-reserved, 0), s.wide)))
}

// needed is the least debt that has to stay for the reservations, if level credits are spent: see freed.
func (v *bucketView) needed(s *State, level int64) int64 {
	var rest []record
	for i := range s.records.len() {
		if r := s.records.at(i); r.at > v.at && r.n > 0 {
			rest = append(rest, *r)
		}
	}
	slices.SortFunc(rest, func(a, b record) int { return cmp.Compare(a.at, b.at) })
	need, at := level, v.at
	for _, r := range rest {
		level = min(drain(level, v.rate, r.at-at)+mulMax(r.n, v.unit), maxExact)
		need = max(need, v.beyond(level, r.at-v.at))
		at = r.at
	}
	return need
}
