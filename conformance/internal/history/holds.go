package history

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/coordgo/coord/driver"
)

// ModelHolds is of the holds of a key, as drivers see them: exclusive ones, or those of several who share it. It is no
// sequential model: what each hold certainly had, and may have had, are intervals, which are compared in pairs. So the
// check of a history of any length is fast, and says what is wrong.
const ModelHolds = "holds"

// hold is one, as far as the answers tell.
type hold struct {
	who         string
	share       driver.Share
	token       int64 // 0 while no answer has given it
	slot        int
	first       *Operation // that may have been granted it
	again       *Operation // the first without an answer, which may have been granted another one of the id later
	asked, from int64      // may be live, and certainly is, since then
	sure, late  int64      // certainly is live, and may be, until then
	ending      bool       // an Unlock was sent, so that nothing is certain any more
	shrinks     []shrink
}

// shrink is a renewal that asked for less.
type shrink struct {
	call, done int64 // done is MaxInt64 if it is not known to have been made
	to         driver.Share
}

// certain is what the hold had at least at t.
func (h *hold) certain(t int64) driver.Share {
	s := h.share
	for _, less := range h.shrinks {
		if less.call <= t {
			s = s.Shrunk(less.to)
		}
	}
	return s
}

// possible is what the hold had at most at t.
func (h *hold) possible(t int64) driver.Share {
	s := h.share
	for _, less := range h.shrinks {
		if less.done < t {
			s = s.Shrunk(less.to)
		}
	}
	return s
}

// surely reports whether the hold certainly was live from one time to the other.
func (h *hold) surely(from, to int64) bool { return h != nil && h.from <= from && to < h.sure }

// holdsCheck is the check of one key.
type holdsCheck struct {
	Heading
	ops   []Operation
	holds []*hold
	errs  []error
}

// checkHolds gives what is wrong with the operations of one key, in an error that matches ErrNotLinearizable.
func checkHolds(head Heading, ops []Operation) error {
	ops = slices.Clone(ops)
	slices.SortStableFunc(ops, func(a, b Operation) int { return cmp.Compare(a.Call, b.Call) })
	c := &holdsCheck{Heading: head, ops: ops}
	byWho := make(map[string][]*Operation)
	for i := range ops {
		byWho[ops[i].Who] = append(byWho[ops[i].Who], &ops[i])
	}
	for _, of := range byWho {
		c.follow(of)
	}
	slices.SortFunc(c.holds, func(a, b *hold) int { return cmp.Compare(a.asked, b.asked) })
	c.succeeded()
	c.bounds()
	c.pairs()
	c.refusals()
	return errors.Join(c.errs...)
}

func (c *holdsCheck) wrong(o *Operation, format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("%w: at %s, %v: %s", ErrNotLinearizable, timeText(o.Call), o, fmt.Sprintf(format, args...)))
}

// follow goes through the operations of one id.
func (c *holdsCheck) follow(ops []*Operation) {
	var cur *hold
	lost := false // an attempt has no answer, and may yet be granted
	for _, o := range ops {
		switch {
		case o.Result == Nothing:
		case o.Result == Unknown:
			lost = lost || o.Op == OpTry
			cur = c.unanswered(cur, o)
		case o.Result == Locked && o.Op != OpTry, o.Result == NotHeld && o.Op == OpTry:
			c.wrong(o, "which is no answer to such a call")
		case o.Op == OpTry && o.Result == OK:
			cur = c.granted(cur, o)
		case o.Op == OpTry && cur.surely(o.Call, o.Return):
			c.wrong(o, "refused its own hold")
		case o.Op == OpTry:
		case o.Op == OpRenew && o.Result == OK:
			cur = c.renewed(cur, o)
		case o.Result == NotHeld && cur.surely(o.Call, o.Return) && !o.Shaken:
			c.wrong(o, "its hold certainly lasts until %s", timeText(cur.sure))
		case o.Op == OpUnlock && cur != nil:
			cur.ended(o)
			if !lost && o.Result == OK {
				cur.late = min(cur.late, o.Return)
				cur = nil
			}
		case o.Op == OpUnlock && o.Result == OK && !slices.ContainsFunc(c.ops, o.excusedBy):
			c.wrong(o, "there was no hold of that id, and it was in no queue")
		}
	}
}

// unanswered is what an operation may have done.
func (c *holdsCheck) unanswered(cur *hold, o *Operation) *hold {
	switch {
	case o.Op == OpTry && cur == nil:
		cur = c.hold(o)
		cur.from, cur.sure = math.MaxInt64, math.MinInt64
	case cur == nil:
	case o.Op == OpTry && cur.again == nil:
		cur.again = o
	case o.Op == OpUnlock:
		cur.ended(o)
	case o.Op == OpRenew:
		cur.shrinks = append(cur.shrinks, shrink{o.Call, math.MaxInt64, o.shareOf()})
	}
	if cur != nil {
		cur.late = math.MaxInt64
	}
	return cur
}

// hold begins a hold that o may have been granted.
func (c *holdsCheck) hold(o *Operation) *hold {
	h := &hold{who: o.Who, share: o.shareOf(), first: o, asked: o.Call, from: o.Return, sure: math.MinInt64}
	c.holds = append(c.holds, h)
	return h
}

// shareOf is what o is about. Who holds a key exclusively is like a writer.
func (o *Operation) shareOf() driver.Share {
	if o.Mode == driver.Exclusive {
		return driver.Share{Mode: driver.Write}
	}
	return driver.Share{Mode: o.Mode, Weight: o.Weight, Of: o.Of}
}

// ended notes that an Unlock was sent.
func (h *hold) ended(o *Operation) {
	h.ending = true
	h.sure = min(h.sure, o.Call)
}

// granted is a TryLock that was granted: newly, or again.
func (c *holdsCheck) granted(cur *hold, o *Operation) *hold {
	switch {
	case cur != nil && cur.token == o.Token:
		c.extend(cur, o)
		return cur
	case cur != nil && cur.token == 0: // or another one of the same id: it is granted since then at the earliest
		c.answered(cur, o)
		return cur
	case cur.surely(o.Call, o.Return):
		c.wrong(o, "a new token, want %d, of its hold, which certainly lasts until %s", cur.token, timeText(cur.sure))
	case cur != nil && o.Token < cur.token:
		c.wrong(o, "a token below its own before, %d", cur.token)
	}
	h := c.hold(o)
	if cur != nil && cur.again != nil {
		h.asked, h.again = cur.again.Call, cur.again
	}
	c.answered(h, o)
	return h
}

// answered notes the first answer about a hold.
func (c *holdsCheck) answered(h *hold, o *Operation) {
	h.token, h.slot, h.from = o.Token, o.Slot, o.Return
	c.extend(h, o)
}

// extend notes a lease that was granted or prolonged.
func (c *holdsCheck) extend(h *hold, o *Operation) {
	if o.Slot != h.slot {
		c.wrong(o, "a slot other than its own, %d", h.slot)
	}
	if !h.ending {
		h.sure = max(h.sure, o.Start+o.TTL-int64(Margin(time.Duration(o.TTL))))
	}
	if c.Lapse == 0 {
		h.late = math.MaxInt64
	} else {
		h.late = max(h.late, o.Return+o.TTL+int64(c.Lapse))
	}
}

// succeeded ends holds by the grants of others that do not fit beside them.
func (c *holdsCheck) succeeded() {
	for _, h := range c.holds {
		for _, next := range c.holds {
			if h.token != 0 && h.token < next.token && !h.possible(next.asked).Fits(next.share) {
				h.late = min(h.late, next.from)
			}
		}
	}
}

// renewed is a Renew that was confirmed.
func (c *holdsCheck) renewed(cur *hold, o *Operation) *hold {
	switch {
	case cur == nil:
		c.wrong(o, "there was no hold of that id")
		return nil
	case cur.token == 0:
		c.answered(cur, o)
	case cur.token != o.Token:
		c.wrong(o, "a token other than its own, %d", cur.token)
	case cur.late < o.Call:
		c.wrong(o, "its hold was over at %s", timeText(cur.late))
	default:
		c.extend(cur, o)
	}
	cur.shrinks = append(cur.shrinks, shrink{o.Call, o.Return, o.shareOf()})
	return cur
}

// bounds adds up what was certainly held: at each time at which a hold became certain, as the sum only falls between.
func (c *holdsCheck) bounds() {
	for _, h := range c.holds {
		if h.from >= h.sure {
			continue
		}
		var sum, holds, writers int64
		least := int64(math.MaxInt64)
		for _, other := range c.holds {
			if !other.surely(h.from, h.from) {
				continue
			}
			holds++
			switch s := other.certain(h.from); s.Mode {
			case driver.Write:
				writers++
			case driver.Permits:
				sum += s.Weight
				least = min(least, s.Of)
			}
		}
		if sum > least {
			c.wrong(h.first, "%d permits at once, want at most %d", sum, least)
		}
		if writers > 0 && holds > 1 {
			c.wrong(h.first, "%d holds at once, %d of them writers", holds, writers)
		}
	}
}

// pairs compares the slots and tokens of each two holds.
func (c *holdsCheck) pairs() {
	for i, a := range c.holds {
		for _, b := range c.holds[i+1:] {
			switch {
			case a.token == 0 || b.token == 0:
			case a.slot == b.slot && max(a.from, b.from) < min(a.sure, b.sure):
				c.wrong(b.first, "slot %d, which certainly is of another hold until %s", a.slot, timeText(a.sure))
			case a.token == b.token:
				c.wrong(b.first, "token %d, which is of another hold", a.token)
			case a.from < b.asked && b.token < a.token, b.from < a.asked && a.token < b.token:
				c.wrong(b.first, "tokens do not rise: %d from %s and %d from %s", a.token, timeText(a.from), b.token, timeText(b.from))
			}
		}
	}
}

// refusals looks for a reason of each: a head, or holds beside which there may have been no room.
func (c *holdsCheck) refusals() {
	for i := range c.ops {
		if o := &c.ops[i]; o.Op == OpTry && o.Result == Locked && !c.headed(o) && c.fits(o) {
			c.wrong(o, "refused, although it certainly would fit")
		}
	}
}

// excusedBy reports whether p, which left no hold, may be the reason of o's answer: of a refusal if p was queued at
// that time, of an Unlock that found something if it took p out of the queue.
func (o *Operation) excusedBy(p Operation) bool {
	if p.Op != OpTry || p.Result != Locked && p.Result != Unknown || p.Call > o.Return {
		return false
	}
	if o.Op == OpUnlock {
		return p.Who == o.Who
	}
	return o.Mode == driver.Exclusive && p.Who != o.Who && p.last() >= o.Call
}

// headed reports whether another id may have been the head, or in the queue, when o was refused.
func (c *holdsCheck) headed(o *Operation) bool {
	return slices.ContainsFunc(c.ops, func(p Operation) bool {
		mark := p.Op == OpTry && p.Head && p.Who != o.Who && (p.Result == Locked || p.Result == Unknown)
		return o.excusedBy(p) || mark && p.Call <= o.Return && (c.Lapse == 0 || p.Result == Unknown || o.Call <= p.Return+int64(driver.HeadFor+c.Lapse))
	})
}

// fits reports whether o fits beside all holds that may have been live when it was refused.
func (c *holdsCheck) fits(o *Operation) bool {
	s := o.shareOf()
	sum, least := s.Weight, s.Of
	for _, h := range c.holds {
		if h.who == o.Who || h.late < o.Call || o.Return < h.asked {
			continue
		}
		had := h.possible(o.Call)
		if !s.Fits(had) {
			return false
		}
		sum, least = sum+had.Weight, min(least, had.Of)
	}
	return s.Mode != driver.Permits || sum <= least
}
