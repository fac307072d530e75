package limits

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"time"

	"github.com/coordgo/coord/driver"
)

// maxExact bounds every number that is stored or computed: the integers up to
// it are exact in a float64.
const maxExact = 1 << 53

// Name says which state of a key the limit l uses: "sw:60000000" and
// "fw:60000000" for the windows, by their period in microseconds, and
// "tb:1:100000" for the token bucket, by its rate as [driver.Limit.Refill] has
// it. l is normal.
func Name(l driver.Limit) string {
	var b [32]byte
	return string(AppendName(b[:0], l))
}

// AppendName appends Name(l) to b.
func AppendName(b []byte, l driver.Limit) []byte {
	switch l.Algorithm {
	case driver.TokenBucket:
		rate, unit := l.Refill()
		b = strconv.AppendInt(append(b, "tb:"...), rate, 10)
		return strconv.AppendInt(append(b, ':'), unit, 10)
	case driver.FixedWindow:
		b = append(b, "fw:"...)
	default:
		b = append(b, "sw:"...)
	}
	return strconv.AppendInt(b, l.Per.Microseconds(), 10)
}

// Check refuses a request that l can never serve: ErrInvalid for numbers out of
// range, ErrUnsupported for a MaxDelay on a window. l is normal.
func Check(l driver.Limit, a driver.Ask) error {
	switch {
	case a.N < 0 || a.N > l.Max():
		return fmt.Errorf("%w: %d permits of %v: want 0 to %d", driver.ErrInvalid, a.N, l, l.Max())
	case a.Min < 0 || a.Min > a.N:
		return fmt.Errorf("%w: at least %d permits of %d: want 0 to %d", driver.ErrInvalid, a.Min, a.N, a.N)
	case a.MaxDelay < 0:
		return fmt.Errorf("%w: max delay %v: want 0 or more", driver.ErrInvalid, a.MaxDelay)
	case a.MaxDelay > 0 && l.Algorithm != driver.TokenBucket:
		return fmt.Errorf("%w: a reservation on a %v: only a token-bucket grants ahead of time", driver.ErrUnsupported, l.Algorithm)
	case len(a.ID) > driver.MaxID:
		return fmt.Errorf("%w: ask id of %d bytes: want at most %d", driver.ErrInvalid, len(a.ID), driver.MaxID)
	}
	return nil
}

// CheckEach is Check of every request.
func CheckEach(l driver.Limit, asks []driver.Ask) error {
	for _, a := range asks {
		if err := Check(l, a); err != nil {
			return err
		}
	}
	return nil
}

// kind says which arithmetic a State belongs to.
type kind uint8

const (
	fresh kind = iota
	windowed
	bucketed
)

// State is what is stored for one key under one Name. The zero State is a
// fresh one, with full capacity. A State is not for concurrent use, and a copy
// shares memory with its original: use one of them.
//
// Given a limit with another Name than the one it was made by, a State counts
// as fresh.
type State struct {
	kind kind
	last int64 // time of the last grant

	// Of the windows.
	width int64      // of a sub-window, µs
	span  int64      // sub-windows that count beside the current one
	sum   int64      // permits in slots
	slots ring[slot] // sub-windows with permits, oldest first

	// Of the token bucket.
	debt  int64 // credits missing at last, those reserved ahead of time included; no burst caps it
	over  int64 // of them, what the burst of the last grant did not see
	cap   int64 // that burst, in credits
	rate  int64 // credits refilled per microsecond
	unit  int64 // credits of one permit, in lowest terms with rate
	due   int64 // when the last reservation falls due
	wide  int64 // while there are reservations: credits that were spent at one time, or charged, at most
	blind int64 // until then reservations are outstanding that records no longer know
	paid  int64 // when charges beyond the burst are repaid, so that every burst sees them

	records ring[record] // what Refund can give back, oldest first
}

// Take evaluates one request at time now. The limit is normal and the request passes
// Check. A denial and a peek leave the state as it is; changed tells whether it
// has to be stored. In the steady state Take does not allocate.
func (s *State) Take(l driver.Limit, now int64, a driver.Ask) (out driver.TakenOne, changed bool) {
	changed = s.TakeInto(&out, &l, now, &a)
	return out, changed
}

// TakeInto is Take with the answer written to out, for a store to whose speed
// the copying of arguments and answers matters. It only reads l and a, and
// keeps none of the pointers.
func (s *State) TakeInto(out *driver.TakenOne, l *driver.Limit, now int64, a *driver.Ask) (changed bool) {
	*out = driver.TakenOne{}
	if l.Algorithm == driver.TokenBucket {
		return s.takeBucket(out, l, now, a)
	}
	return s.takeWindow(out, l, now, a)
}

// TakeEach evaluates asks in order at time now: the answer to Limiter.Take, by which
// no asks is a peek.
func (s *State) TakeEach(l driver.Limit, now int64, asks []driver.Ask) (taken driver.Taken, changed bool) {
	taken.Asks = make([]driver.Granted, len(asks))
	var one driver.TakenOne
	for i, a := range asks {
		dirty := s.TakeInto(&one, &l, now, &a)
		taken.Asks[i] = one.Granted
		changed = changed || dirty
	}
	if len(asks) == 0 {
		s.TakeInto(&one, &l, now, &driver.Ask{})
	}
	taken.Remaining, taken.ResetAfter = one.Remaining, one.ResetAfter
	return taken, changed
}

// Refund gives back n of the permits that the request id was granted: at most once
// per id, at most as many as it was granted, and nothing once they have left
// the window or, in a token bucket, fallen due; a token bucket therefore takes
// back only what it granted with a delay. The newest 1024 grants are
// remembered; older ones are not given back. changed tells whether the state
// has to be stored.
func (s *State) Refund(l driver.Limit, now int64, id string, n int) (changed bool) {
	if id == "" || n <= 0 {
		return false
	}
	if l.Algorithm == driver.TokenBucket {
		return s.refundBucket(&l, now, id, int64(n))
	}
	return s.refundWindow(&l, now, id, int64(n))
}

// Expiry is how long after now, without calls, the state equals a fresh one and
// may be dropped. One that a wrong clock has made is dropped after the time in which
// the limit comes back, by the store's clock: then all its grants are that old. [Ahead] is
// for a store that keeps it longer.
func (s *State) Expiry(l driver.Limit, now int64) time.Duration {
	if l.Algorithm == driver.TokenBucket {
		var v bucketView
		v.read(s, &l, now)
		return micros(v.clears(v.owed))
	}
	var v windowView
	v.read(s, gridOf(&l), now)
	return micros(v.resetAfter(s))
}

// micros converts a duration in microseconds, saturating.
func micros(us int64) time.Duration {
	if us > math.MaxInt64/int64(time.Microsecond) {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}

// maxLag is by how many microseconds, beyond the time in which a whole limit comes back, a
// clock may lag behind a state.
const maxLag = 60_000_000

// ratchet gives the time that counts, and by how much the clock lags behind it. Whole is how long a
// whole limit takes to come back. A state that is further ahead than that and maxLag was made
// by a clock that was wrong. It is far: it stands still, what it says does not
// wait for the clock, and it may be dropped when the limit would be whole.
func (s *State) ratchet(now, whole int64) (at, lag int64, far bool) {
	now = clamp(now)
	switch lag = s.last - now; {
	case lag <= 0:
		return now, 0, false
	case lag > whole+maxLag:
		return s.last, 0, true
	}
	return s.last, lag, false
}

// clamp keeps a time in the range that is exact, which ends in the year 2255.
func clamp(now int64) int64 { return min(max(now, 0), maxExact) }

// ceilDiv is a/b rounded up, for a >= 0 and b > 0.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 {
		q++
	}
	return q
}

// mulMax is a·b, or maxExact if that is less, for a, b >= 0.
func mulMax(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > maxExact {
		return maxExact
	}
	return int64(lo)
}
