package permit

import (
	"time"

	"github.com/coordgo/coord/driver"
)

// sizer decides how many permits to take in advance: as many as are spent while they
// last, at the rate of late. It is guarded by prefetched.mu.
type sizer struct {
	rule   Rule
	window time.Duration // permits end with the period of this length in which they were taken; 0: a token bucket

	period    time.Duration // of the limit
	scarce    time.Duration // until then nothing is taken in advance, for the store has denied a request
	unfit     bool          // the store does not say for how long permits are valid
	rate      float64       // permits a second
	used      int64         // permits had in all, when
	measured  time.Duration // it was measured
	remaining int           // at the store, of late; -1: it has not been heard of
	ends      time.Duration // when a period ended, or will
	trip      time.Duration // how long calls take, of late
}

// The least permits that are worth taking in advance. Those of a window end with the sub-window, often
// before they are spent: what is lost of a small lease is more than what it saves.
const (
	leastOfWindow = 16
	leastOfBucket = 2
)

func (s *sizer) init(limit *driver.Limit, rule Rule, now time.Duration) {
	s.rule, s.measured, s.remaining = rule, now, -1
	s.period = limit.Per
	switch limit.Algorithm {
	case driver.SlidingWindow:
		s.window = (limit.Per + driver.SubWindows - 1) / driver.SubWindows
	case driver.FixedWindow:
		s.window = limit.Per
	}
}

// size is how many permits are worth having beyond those that are asked for: used were had
// in all until now, and rest are there and will be spent before them.
func (s *sizer) size(now time.Duration, used int64, rest int) int {
	s.measure(now, used)
	if s.unfit || s.remaining <= 0 || now < s.scarce {
		return 0
	}
	n := int(s.rate*s.horizon(now).Seconds()) - rest
	n = min(n, s.rule.Max, s.remaining/(2*s.rule.Lessees))
	if n < leastOfBucket || s.window > 0 && n < leastOfWindow {
		return 0
	}
	return n
}

// measure brings the rate up to date. It follows a rise quickly, as asks that the
// store has to answer are what leases are to save, and a fall over the time of a lease.
func (s *sizer) measure(now time.Duration, used int64) {
	dt := now - s.measured
	if dt < s.rule.For/100 {
		return
	}
	rate := float64(used-s.used) / dt.Seconds()
	weight := float64(dt) / float64(dt+s.rule.For)
	if rate > s.rate {
		weight = max(weight, 0.5)
	}
	s.rate += weight * (rate - s.rate)
	s.used, s.measured = used, now
}

// horizon is how long permits that are asked for now can be used.
func (s *sizer) horizon(now time.Duration) time.Duration {
	h := s.rule.For
	if s.window > 0 {
		left := s.ends - now
		if left <= 0 {
			left += (-left/s.window + 1) * s.window
		}
		h = min(h, left)
	}
	return h - s.trip
}

// learn takes in an answer of the store to a call sent at sent.
func (s *sizer) learn(t *driver.TakenOne, sent, now time.Duration) {
	s.remaining = t.Remaining
	s.trip += (now - sent - s.trip) / 8
	if t.N == 0 && t.RetryAfter > 0 { // near the limit every permit that is not spent is missed
		s.scarce = now + s.period
	}
	if s.window == 0 || t.N == 0 {
		return
	}
	if t.ValidFor <= 0 {
		s.unfit = true
		return
	}
	s.ends = sent + t.ValidFor
}

// life is how long after the call was sent prefetched permits may be spent. A window's end
// with their sub-window, less one percent, by which the clocks may differ
// in speed; with that its bound is kept as if all were spent at once. A bucket's
// bound grows by what is refilled in the meantime.
func (s *sizer) life(t *driver.TakenOne) time.Duration {
	life := s.rule.For
	if s.window > 0 {
		life = min(life, t.ValidFor)
	}
	return life - life/100
}
