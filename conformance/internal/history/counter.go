package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coordgo/coord/driver"
)

// ModelCounter is of limits that do not move during a run: their period is a year.
const ModelCounter = "counter"

// counterState is how much of a limit is spent.
type counterState struct {
	spent int
	// back is what each request may still be given back, by id, as far as anyone tries to: the rest would only keep states
	// apart that are the same. Never changed in place.
	back []grantOf
}

type grantOf struct {
	id string
	n  int
}

// counterModel is a limit of the most simple kind: so many permits, and no more. It is exact.
type counterModel struct{ limit driver.Limit }

func (counterModel) start() counterState { return counterState{} }

func (counterModel) same(a, b counterState) bool {
	return a.spent == b.spent && slices.Equal(a.back, b.back)
}

func (m counterModel) show(s counterState) string {
	return fmt.Sprintf("%d of %d spent", s.spent, m.limit.Max())
}

// fits is what a request is granted when so many are left.
func fits(o *Operation, left int) int {
	if n := min(o.N, left); n > 0 && n >= o.Min {
		return n
	}
	return 0
}

// steps gives the states that may follow: an operation takes effect once. One that was shaken may have done so twice,
// and the second call was answered, or neither.
func (m counterModel) steps(s counterState, o *Operation) []counterState {
	if o.Result == Nothing {
		return []counterState{s}
	}
	var out []counterState
	if once, ok := m.step(s, o); ok {
		out = append(out, once)
	}
	if o.Shaken {
		lost := *o
		lost.Result = Unknown
		first, _ := m.step(s, &lost)
		if twice, ok := m.step(first, o); ok {
			out = append(out, twice)
		}
	}
	return out
}

func (m counterModel) step(s counterState, o *Operation) (counterState, bool) {
	if o.Result != OK && o.Result != Unknown {
		return s, false
	}
	switch o.Op {
	case OpTake:
		left := m.limit.Max() - s.spent
		n := fits(o, left)
		if o.Result == OK && (n != o.Granted || left-n != o.Remaining) {
			return s, false
		}
		return m.spend(s, o, n), true
	case OpRefund:
		return s.refund(o.Who, o.N), true
	case OpReset:
		return counterState{}, true
	}
	return s, false
}

func (m counterModel) spend(s counterState, o *Operation, n int) counterState {
	s.spent += n
	// What a bucket granted at once was there to be used, and is not given back.
	if n > 0 && o.refunded && o.Who != "" && m.limit.Algorithm != driver.TokenBucket {
		i, _ := slices.BinarySearchFunc(s.back, o.Who, func(g grantOf, id string) int { return strings.Compare(g.id, id) })
		s.back = slices.Insert(slices.Clone(s.back), i, grantOf{o.Who, n})
	}
	return s
}

// refund gives back once.
func (s counterState) refund(id string, n int) counterState {
	i := slices.IndexFunc(s.back, func(g grantOf) bool { return g.id == id })
	if i < 0 || n <= 0 {
		return s
	}
	s.spent -= min(n, s.back[i].n)
	s.back = slices.Delete(slices.Clone(s.back), i, i+1)
	return s
}
