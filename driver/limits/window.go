package limits

import "github.com/coordgo/coord/driver"

// slot counts the permits of one sub-window.
type slot struct {
	index int64 // time / width
	n     int64 // above 0 in the oldest and the newest slot
}

// grid is how a window algorithm cuts time.
type grid struct {
	width int64 // µs
	span  int64 // sub-windows that count beside the current one
}

func gridOf(l *driver.Limit) grid {
	per := l.Per.Microseconds()
	if l.Algorithm == driver.FixedWindow {
		return grid{width: per}
	}
	// MinPer is longer than SubWindows microseconds, so each has some width.
	return grid{width: ceilDiv(per, driver.SubWindows), span: driver.SubWindows}
}

// leaves is when sub-window index no longer counts.
func (g grid) leaves(index int64) int64 { return (index + g.span + 1) * g.width }

// windowView is a state as it stands at some time, without changing it.
type windowView struct {
	grid
	at, lag int64
	far     bool
	index   int64 // of the current sub-window
	gone    int   // slots that no longer count
	sum     int64 // of those that do
}

// read makes v, which is zero, the view of s.
func (v *windowView) read(s *State, g grid, now int64) {
	v.grid = g
	if s.kind != windowed || s.width != g.width || s.span != g.span {
		v.at, v.gone = clamp(now), s.slots.len()
		v.index = v.at / g.width
		return
	}
	v.at, v.lag, v.far = s.ratchet(now, g.leaves(0))
	v.index, v.sum = s.indexOf(v.at), s.sum
	// Each slot is passed over until the next grant drops it for good: O(1)
	// per grant on average.
	for v.gone < s.slots.len() && s.slots.at(v.gone).index < v.index-g.span {
		v.sum -= s.slots.at(v.gone).n
		v.gone++
	}
}

// indexOf is the sub-window of a time not before the last grant: mostly that
// of the newest slot, which takes no division to see.
func (s *State) indexOf(at int64) int64 {
	if k := s.slots.len(); k > 0 {
		newest := s.slots.at(k - 1).index
		if at-newest*s.width < s.width {
			return newest
		}
	}
	return at / s.width
}

// retryAfter is how long until n more permits fit under rate. They fit one day,
// n being at most rate.
func (v *windowView) retryAfter(s *State, rate, n int64) int64 {
	need := v.sum + n - rate
	for i := v.gone; need > 0; i++ {
		sl := s.slots.at(i)
		if need -= sl.n; need <= 0 {
			return v.leaves(sl.index) - v.at + v.lag
		}
	}
	return 0
}

// resetAfter is how long until no slot counts any more.
func (v *windowView) resetAfter(s *State) int64 {
	switch {
	case v.sum == 0:
		return 0
	case v.far:
		return v.grid.leaves(0)
	}
	return v.leaves(s.slots.at(s.slots.len()-1).index) - v.at + v.lag
}

func (s *State) takeWindow(out *driver.TakenOne, l *driver.Limit, now int64, a *driver.Ask) (changed bool) {
	var v windowView
	v.read(s, gridOf(l), now)
	rate := int64(l.Rate)
	// A lowered rate can leave more in the window than it allows.
	n := min(int64(a.N), max(rate-v.sum, 0))
	if n > 0 && n >= int64(a.Min) {
		s.addToWindow(&v, a.ID, n)
		changed = true
		out.N = int(n)
		out.ValidFor = micros((v.index+1)*v.width - v.at)
	} else {
		out.RetryAfter = micros(v.retryAfter(s, rate, max(int64(a.Min), 1)))
	}
	out.Remaining = int(max(rate-v.sum, 0))
	out.ResetAfter = micros(v.resetAfter(s))
	return changed
}

// addToWindow stores v and n more permits in its current sub-window.
func (s *State) addToWindow(v *windowView, id string, n int64) {
	if s.kind != windowed || s.width != v.width || s.span != v.span {
		*s = State{kind: windowed, width: v.width, span: v.span}
		v.gone = 0
	}
	for range v.gone {
		s.slots.pop()
	}
	v.gone = 0
	past := v.index - v.span - 1
	if v.sum == 0 { // as good as fresh: what was given back by a charge has left its record
		past = v.index
	}
	s.prune(past)
	v.sum += n
	s.sum, s.last = v.sum, v.at
	if k := s.slots.len(); k > 0 && s.slots.at(k-1).index == v.index {
		s.slots.at(k - 1).n += n
	} else {
		s.slots.push(slot{index: v.index, n: n})
	}
	if id != "" {
		s.remember(record{id: id, n: n, at: v.index})
	}
}

func (s *State) refundWindow(l *driver.Limit, now int64, id string, n int64) (changed bool) {
	var v windowView
	v.read(s, gridOf(l), now)
	if v.sum == 0 {
		return false
	}
	r := s.claim(id, v.index-v.span-1)
	if r == nil {
		return false
	}
	for range v.gone {
		s.slots.pop()
	}
	s.sum, s.last = v.sum, v.at
	for i := s.slots.len() - 1; i >= 0; i-- {
		if sl := s.slots.at(i); sl.index == r.at {
			n = min(n, r.n, sl.n)
			sl.n -= n
			s.sum -= n
		}
	}
	s.trim()
	return true
}

// trim keeps the slots at both ends non-empty, for they say when permits leave.
func (s *State) trim() {
	for s.slots.len() > 0 && s.slots.at(0).n == 0 {
		s.slots.pop()
	}
	for s.slots.len() > 0 && s.slots.at(s.slots.len()-1).n == 0 {
		s.slots.popNewest()
	}
}

// Grid says how a window limit cuts time: the width of a sub-window in
// microseconds, and how many count beside the current one.
func Grid(l driver.Limit) (width, span int64) {
	g := gridOf(&l)
	return g.width, g.span
}
