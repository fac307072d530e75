package holders

import (
	"fmt"
	"slices"
	"time"

	"github.com/coordgo/coord/driver"
)

// The steps change the record also where they fail: a head that is refused leaves its mark, and what a clock that was
// set back has left too far in the future is shortened. So the record is kept after each step, if it has changed.

// TryLock adds a hold for q, or gives the one that its id has.
func (r *Record) TryLock(q driver.Request, now time.Time, rules Rules) (driver.Grant, error) {
	at := now.UnixMicro()
	r.shorten(at, rules)
	if h := r.find(q.ID, at); h != nil {
		return h.extend(q.TTL, now, rules), nil
	}
	fits, bound := r.admits(q.Share, at)
	if headed := r.headed(q.ID, at); headed || !fits {
		if q.Share.Head && !headed {
			r.Head = Mark{ID: q.ID, Until: Until(now, driver.HeadFor)}
		}
		return driver.Grant{}, &driver.LockedError{Remaining: r.remaining(q.ID, at)}
	}
	slot, live := r.freeSlot(at)
	if live >= rules.MaxHolders {
		return driver.Grant{}, fmt.Errorf("%w: more than %d holders of one key", driver.ErrUnsupported, rules.MaxHolders)
	}
	token := r.Token + 1
	if rules.ClockTokens {
		token = max(token, at)
	}
	if token > driver.MaxToken {
		return driver.Grant{}, fmt.Errorf("%w: token %d: want at most %d", driver.ErrUnsupported, token, int64(driver.MaxToken))
	}
	r.Holds = slices.DeleteFunc(r.Holds, func(h Hold) bool { return !h.live(at) })
	share := q.Share
	share.Head = false
	h := Hold{ID: q.ID, Share: share, Slot: slot, Token: token}
	r.Token = token
	if r.Head.ID == q.ID || at >= r.Head.Until {
		r.Head = Mark{}
	}
	g := h.extend(q.TTL, now, rules)
	g.Of = bound
	r.Holds = append(r.Holds, h)
	return g, nil
}

// Renew extends the hold of q, and makes it smaller if q asks for less.
func (r *Record) Renew(q driver.Request, now time.Time, rules Rules) (driver.Grant, error) {
	r.shorten(now.UnixMicro(), rules)
	h := r.find(q.ID, now.UnixMicro())
	if h == nil {
		return driver.Grant{}, driver.ErrNotHeld
	}
	h.Share = h.Share.Shrunk(q.Share)
	return h.extend(q.TTL, now, rules), nil
}

// Unlock ends the hold of id, and its headship.
func (r *Record) Unlock(id string, now time.Time, rules Rules) error {
	at := now.UnixMicro()
	r.shorten(at, rules)
	was := r.Head.ID == id && at < r.Head.Until
	if r.Head.ID == id {
		r.Head = Mark{}
	}
	h := r.find(id, at)
	switch {
	case h != nil:
		r.Holds = slices.DeleteFunc(r.Holds, func(h Hold) bool { return h.ID == id && !h.Broken })
	case !was:
		return driver.ErrNotHeld
	}
	return nil
}

// Break takes the hold from id. It counts until its lease ends.
func (r *Record) Break(id string, now time.Time, rules Rules) error {
	r.shorten(now.UnixMicro(), rules)
	h := r.find(id, now.UnixMicro())
	if h == nil {
		return driver.ErrNotHeld
	}
	h.Broken = true
	return nil
}

// BreakNow is Unlock that also ends what was broken of id. Then nothing of id is left that a clock that is set back could
// bring to life.
func (r *Record) BreakNow(id string, now time.Time, rules Rules) error {
	before := len(r.Holds)
	r.shorten(now.UnixMicro(), rules)
	r.Holds = slices.DeleteFunc(r.Holds, func(h Hold) bool { return h.ID == id && h.Broken && h.live(now.UnixMicro()) })
	freed := len(r.Holds) < before
	if err := r.Unlock(id, now, rules); !freed {
		return err
	}
	r.Holds = slices.DeleteFunc(r.Holds, func(h Hold) bool { return h.ID == id && !h.Broken })
	return nil
}

// extend prolongs the lease, and never shortens it.
func (h *Hold) extend(ttl time.Duration, now time.Time, rules Rules) driver.Grant {
	if until := Until(now, ttl+rules.Skew); until > h.Until {
		h.Until, h.TTL = until, (ttl + time.Microsecond - 1).Microseconds()
	}
	left := time.UnixMicro(h.Until).Sub(now) - rules.Skew
	return driver.Grant{Token: h.Token, TTL: max(ttl, left), Slot: h.Slot, Of: h.Share.Of}
}

// shorten cuts leases and a headship that end later than they could if the clock had not been set back, so that they are
// in nobody's way for longer than they were asked for.
func (r *Record) shorten(now int64, rules Rules) {
	for i := range r.Holds {
		h := &r.Holds[i]
		h.Until = min(h.Until, now+h.TTL+rules.Skew.Microseconds()+1)
	}
	if r.Head.ID != "" {
		r.Head.Until = min(r.Head.Until, now+driver.HeadFor.Microseconds()+1)
	}
}

// Until is when what begins now and lasts d is over, in Unix microseconds. It rounds up, so that a lease lasts at least
// as long as was said.
func Until(now time.Time, d time.Duration) int64 {
	return now.Add(d + time.Microsecond - 1).UnixMicro()
}
