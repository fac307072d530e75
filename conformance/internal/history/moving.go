package history

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/coordgo/coord/driver"
)

// ModelMoving is of limits that move during a run. The instant at which the store counted an operation is not known,
// only that it lies between call and return. So these models compute with intervals: they know the bounds of a state.
// They refuse what no instants within the intervals explain. They may accept an answer that is wrong by less than a
// call takes.
const ModelMoving = "moving"

// tolerance is for clocks that are read in steps, and drift from ours during a run.
const tolerance = int64(5 * time.Millisecond)

// blurOf is by how much the store's clock may differ for two clients. A client that learns the clock from answers errs
// by half a round trip, and no round trip took longer than the longest call.
func blurOf(ops []Operation) int64 {
	longest := int64(0)
	for i := range ops {
		if o := &ops[i]; o.Op == OpTake && o.Result == OK {
			longest = max(longest, o.Return-o.Call)
		}
	}
	return tolerance + longest/2
}

// when gives the instants between which an operation was counted.
func (o *Operation) when() (from, to int64) {
	to = o.last()
	if to < math.MaxInt64 {
		to += o.blur
	}
	return o.Call - o.blur, to
}

// plus adds without leaving the range.
func plus(t, d int64) int64 {
	if t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}

// plain reports whether an operation is one that the moving models know.
func (o *Operation) plain() bool {
	return o.Op == OpTake && (o.Result == OK || o.Result == Unknown)
}

// bucketState is when a token bucket is full again if nothing more is taken: between lo and hi.
type bucketState struct{ lo, hi int64 }

// bucketModel is a token bucket, described by the moment at which it is full (as in the generic cell rate algorithm). A
// grant of n moves that moment by n intervals, and there is room while it is no further ahead than Burst intervals.
type bucketModel struct{ limit driver.Limit }

func (bucketModel) start() bucketState         { return bucketState{math.MinInt64, math.MinInt64} }
func (bucketModel) same(a, b bucketState) bool { return a == b }

func (bucketModel) show(s bucketState) string {
	return fmt.Sprintf("full between %s and %s", timeText(s.lo), timeText(s.hi))
}

// refill is how long n permits take to come back, rounded down or up.
func (m bucketModel) refill(n int, up bool) int64 {
	per, rate := int64(m.limit.Per), int64(m.limit.Rate)
	d := int64(n) * per
	if up {
		d += rate - 1
	}
	return d / rate
}

func (m bucketModel) step(s bucketState, o *Operation) (bucketState, bool) {
	if o.Result == Nothing {
		return s, true
	}
	if !o.plain() {
		return s, false
	}
	from, to := o.when()
	if o.Result == Unknown {
		// It may have been granted or denied.
		return bucketState{s.lo, plus(max(s.hi, to), m.refill(o.N, true))}, true
	}
	// What was left after it says where the bucket stood, to within one permit.
	lo := max(s.lo, from) + m.refill(o.Granted, false)
	hi := plus(max(s.hi, to), m.refill(o.Granted, true))
	left := m.limit.Burst - o.Remaining
	lo = max(lo, from+m.refill(left-1, false))
	hi = min(hi, to+m.refill(left, true))
	switch {
	case o.Remaining < 0 || o.Remaining > m.limit.Burst || lo > hi, o.Granted > 0 && (o.Granted < o.Min || o.Granted > o.N):
		return s, false
	case o.Granted < o.N && o.N > 0 && o.Remaining > 0 && (o.Granted > 0 || o.Remaining >= o.Min):
		return s, false // more would have fitted
	case o.Granted == 0 && o.N > 0:
		// The retry time says it exactly.
		due := o.RetryAfter + m.refill(m.limit.Burst-max(o.Min, 1), false)
		lo, hi = max(lo, from+due-int64(time.Millisecond)), min(hi, to+due+int64(time.Millisecond))
	}
	return bucketState{lo, hi}, lo <= hi
}

// slidingModel is a sliding window: grants of the last period count, and grants of one sub-window before that may.
type slidingModel struct {
	limit  driver.Limit
	skewed bool
}

// counted are permits that were granted between two instants.
type counted struct {
	from, to int64
	n        int
	sure     bool // that they were granted
}

func (slidingModel) start() []counted         { return nil }
func (slidingModel) same(a, b []counted) bool { return slices.Equal(a, b) }
func (m slidingModel) show(s []counted) string {
	return fmt.Sprintf("%d grants that may count", len(s))
}

type slidingState = []counted

func (m slidingModel) step(s slidingState, o *Operation) (slidingState, bool) {
	if o.Result == Nothing {
		return s, true
	}
	if !o.plain() {
		return s, false
	}
	from, to := o.when()
	per, widest := int64(m.limit.Per), int64(m.limit.Per)+int64(m.limit.Per)/driver.SubWindows+int64(time.Microsecond)
	next := make(slidingState, 0, len(s)+1)
	least, most := 0, 0
	for _, g := range s {
		if g.to < from-widest {
			continue // for every later operation, too
		}
		next = append(next, g)
		if g.sure && g.from >= to-per {
			least += g.n
		}
		most += g.n
	}
	if o.Result == Unknown {
		return append(next, counted{from, to, o.N, false}), true
	}
	rate := m.limit.Rate
	if o.Granted > 0 {
		next = append(next, counted{from, to, o.Granted, true})
	}
	after := least + o.Granted
	switch {
	case after > rate || o.Remaining > rate-after:
		return s, false
	case m.skewed:
		return next, true
	}
	could := rate - most // were certainly left
	return next, o.Remaining >= could-o.Granted && o.Granted >= fits(o, could)
}

// fixedState is the window in which the last operation was counted.
type fixedState struct {
	// lo and hi: its end lies between them.
	lo, hi int64
	// spent in it, between least and most.
	least, most int
}

// fixedModel is a fixed window. The model learns from the answers where the windows begin on the clock of the store. An
// operation that is answered near the end of a window may belong to it or to the next.
type fixedModel struct{ limit driver.Limit }

func (fixedModel) start() fixedState         { return fixedState{math.MinInt64, math.MaxInt64, 0, 0} }
func (fixedModel) same(a, b fixedState) bool { return a == b }
func (m fixedModel) show(s fixedState) string {
	return fmt.Sprintf("%d to %d of %d spent until %s", s.least, s.most, m.limit.Rate, timeText(s.hi))
}

// steps are the states that may follow.
func (m fixedModel) steps(s fixedState, o *Operation) []fixedState {
	if o.Result == Nothing {
		return []fixedState{s}
	}
	if !o.plain() {
		return nil
	}
	var out []fixedState
	if n, ok := m.count(s, o); ok {
		out = append(out, n)
	}
	if s.lo == math.MinInt64 {
		return out // no window is known yet
	}
	// The later windows in which it may have been counted: one or two, unless its outcome is unknown.
	from, to := o.when()
	per := int64(m.limit.Per)
	for k := max((from-s.hi)/per, 1); s.lo+(k-1)*per <= min(to, o.end); k++ {
		if n, ok := m.count(fixedState{s.lo + k*per, s.hi + k*per, 0, 0}, o); ok {
			out = append(out, n)
		}
	}
	return out
}

// count counts o in the window s.
func (m fixedModel) count(s fixedState, o *Operation) (fixedState, bool) {
	from, to := o.when()
	if from > s.hi || s.lo > math.MinInt64 && to < s.lo-int64(m.limit.Per) {
		return s, false
	}
	if o.Result == Unknown {
		s.most = min(s.most+o.N, m.limit.Rate)
		return s, true
	}
	// What is left tells what was spent.
	spent := m.limit.Rate - o.Remaining
	before := spent - o.Granted
	if before < s.least || before > s.most || o.Granted != fits(o, m.limit.Rate-before) {
		return s, false
	}
	s.least, s.most = spent, spent
	if spent > 0 {
		// The capacity is back at the end of the window.
		s.lo = max(s.lo, from+o.ResetAfter)
		s.hi = min(s.hi, to+o.ResetAfter)
	}
	return s, s.lo <= s.hi && s.hi >= from
}
