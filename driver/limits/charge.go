package limits

import (
	"fmt"

	"github.com/coordgo/coord/driver"
)

// maxDebt is how long a charge can make a limit wait beyond the time in which it comes back, in microseconds.
var maxDebt = driver.MaxPer.Microseconds()

// CheckCharge refuses a charge of more than driver.MaxCharge permits, and a return of more: ErrInvalid.
func CheckCharge(n int) error {
	if n > driver.MaxCharge || n < -driver.MaxCharge {
		return fmt.Errorf("%w: a charge of %d permits: want %d to %d", driver.ErrInvalid, n, -driver.MaxCharge, driver.MaxCharge)
	}
	return nil
}

// Charge debits n permits at time now, whatever is left, or gives -n back if n is below 0. The limit is
// normal and n passes CheckCharge. changed tells whether the state has to be stored.
//
// A bucket owes what it is charged: it grants nothing until the debt is back at its burst. The debt
// beyond the burst stays below what the limit refills in driver.MaxPer, and what is charged beyond that
// is not counted. A window counts the charge in the current sub-window, which leaves with it, however much
// it was: after one period nothing is owed. One sub-window counts to driver.MaxRate.
//
// It gives back no more than is missing. A bucket keeps what its reservations rely on. A window
// takes out of its newest sub-windows first.
func (s *State) Charge(l driver.Limit, now int64, n int) (out driver.Charged, changed bool) {
	switch bucket := l.Algorithm == driver.TokenBucket; {
	case bucket && n > 0:
		s.chargeBucket(&l, now, int64(n))
		changed = true
	case bucket && n < 0:
		changed = s.creditBucket(&l, now, int64(-n))
	case n > 0:
		changed = s.chargeWindow(&l, now, int64(n))
	case n < 0:
		changed = s.creditWindow(&l, now, int64(-n))
	}
	var one driver.TakenOne
	s.TakeInto(&one, &l, now, &driver.Ask{})
	return driver.Charged{Remaining: one.Remaining, RetryAfter: one.RetryAfter, ResetAfter: one.ResetAfter}, changed
}

func (s *State) chargeBucket(l *driver.Limit, now, n int64) {
	var v bucketView
	v.read(s, l, now)
	if s.kind != bucketed || s.rate != v.rate || s.unit != v.unit {
		*s = State{kind: bucketed}
	}
	after := max(v.debt, min(v.debt+mulMax(n, v.unit), v.beyond(v.cap, maxDebt)))
	added := after - v.debt
	s.wide = min(v.spent(s)+added, maxExact)
	v.owed, v.debt = max(min(v.owed+added, maxExact), after), after
	if after > v.cap {
		s.paid = max(s.paid, min(v.at+ceilDiv(after-v.cap, v.rate), maxExact))
	}
	v.store(s)
}

// spent is how many credits were spent at one time, at most: all that is owed, unless there are reservations.
func (v *bucketView) spent(s *State) int64 {
	if s.due <= v.at {
		return v.owed
	}
	return s.wide
}

// creditBucket gives permits back that were granted at once. What it gives was spent as far as the bucket
// knows, and so the reservations keep the debt that they need without it.
func (s *State) creditBucket(l *driver.Limit, now, n int64) (changed bool) {
	var v bucketView
	v.read(s, l, now)
	if v.owed == 0 || v.at < s.blind {
		return false
	}
	spent, reserved, back := v.spent(s), v.reserved(s), mulMax(n, v.unit)
	less := func(debt int64) int64 {
		return min(debt, v.needed(s, max(min(debt-reserved, spent)-back, 0)))
	}
	owed, debt := v.owed, v.debt
	v.owed, v.debt = less(owed), less(debt)
	if v.owed == owed && v.debt == debt {
		return false
	}
	// Less is spent. Reservations that fall due spend no more at one time than a burst, and what it does not see.
	s.wide = max(spent-back, min(spent, v.cap+owed-debt))
	if s.paid > v.at {
		s.paid = max(s.paid-(owed-v.owed)/v.rate, v.at)
	}
	v.store(s)
	return true
}

func (s *State) chargeWindow(l *driver.Limit, now, n int64) (changed bool) {
	var v windowView
	v.read(s, gridOf(l), now)
	room := int64(driver.MaxRate)
	if k := s.slots.len(); k > v.gone && s.slots.at(k-1).index == v.index {
		room -= s.slots.at(k - 1).n
	}
	if n = min(n, room); n <= 0 {
		return false
	}
	s.addToWindow(&v, "", n)
	return true
}

func (s *State) creditWindow(l *driver.Limit, now, n int64) (changed bool) {
	var v windowView
	v.read(s, gridOf(l), now)
	if v.sum == 0 {
		return false
	}
	for range v.gone {
		s.slots.pop()
	}
	s.sum, s.last = v.sum, v.at
	for i := s.slots.len() - 1; i >= 0 && n > 0; i-- {
		sl := s.slots.at(i)
		back := min(n, sl.n)
		sl.n, s.sum, n = sl.n-back, s.sum-back, n-back
	}
	s.trim()
	return true
}
