// Package holders is the record of those who share a key: what driver.SharedLocker promises, decided on a value, without
// a store. Stores that can change a value in one step keep it as text, as those on package cas do. A store
// that decides by itself, in a script say, is compared with it in tests.
//
// The record has O(holders) bytes and each step is O(holders). Its values are not safe for concurrent use.
//
//	record.go   Record, and the questions about it
//	steps.go    the steps: TryLock, Renew, Unlock, Break, BreakNow
//	text.go     the record as text
package holders

import (
	"time"

	"github.com/coordgo/coord/driver"
)

// Record is the holders of one key. The zero Record is a key that was never held.
type Record struct {
	// Token is that of the last grant.
	Token int64
	// Head is the head of the queue, if it was refused lately.
	Head Mark
	// Holds are in the order of their grants. Some may have ended.
	Holds []Hold
}

// Mark says who is the head, and until when that counts, in Unix microseconds.
type Mark struct {
	ID    string
	Until int64
}

// Hold is one of the holds on the key.
type Hold struct {
	ID    string
	Share driver.Share // without Head
	Slot  int
	Token int64
	// TTL is the lease as it was asked for last, and Until its end on the store's clock, in microseconds. Skew between
	// clients' clocks may lie between the two.
	TTL, Until int64
	// Broken: it cannot be renewed or released any more, and counts until its lease ends.
	Broken bool
}

// Rules are what differs between stores.
type Rules struct {
	// Skew is how far what two clients know of the store's clock may lie apart. Leases are kept longer by it.
	Skew time.Duration
	// MaxHolders is the most live holds of a key.
	MaxHolders int
	// ClockTokens: a token is at least the store's clock in microseconds, so that tokens rise although the record
	// was lost or collected.
	ClockTokens bool
}

// live reports whether the lease of h has not ended at now.
func (h *Hold) live(now int64) bool { return now < h.Until }

// find gives the live hold of id that was not broken, nil if there is none.
func (r *Record) find(id string, now int64) *Hold {
	for i := range r.Holds {
		if h := &r.Holds[i]; h.ID == id && !h.Broken && h.live(now) {
			return h
		}
	}
	return nil
}

// headed reports whether another id than the given one is the head.
func (r *Record) headed(id string, now int64) bool {
	return r.Head.ID != "" && r.Head.ID != id && now < r.Head.Until
}

// admits reports whether share fits beside the live holds, and the bound on permits that counts.
func (r *Record) admits(share driver.Share, now int64) (fits bool, bound int64) {
	bound = share.Of
	sum := share.Weight
	for i := range r.Holds {
		h := &r.Holds[i]
		if !h.live(now) {
			continue
		}
		if !share.Fits(h.Share) {
			return false, bound
		}
		if h.Share.Mode == driver.Permits {
			bound = min(bound, h.Share.Of)
			sum += h.Share.Weight
		}
	}
	return share.Mode != driver.Permits || sum <= bound, bound
}

// freeSlot is the lowest number that no live hold has, and how many live holds there are.
func (r *Record) freeSlot(now int64) (slot, live int) {
	taken := make([]bool, len(r.Holds)+1)
	for i := range r.Holds {
		if h := &r.Holds[i]; h.live(now) {
			live++
			if h.Slot < len(taken) {
				taken[h.Slot] = true
			}
		}
	}
	for taken[slot] {
		slot++
	}
	return slot, live
}

// remaining is for how long at most the key is in nobody else's way: until the first live lease ends, or the headship
// of another.
func (r *Record) remaining(id string, now int64) time.Duration {
	var first int64
	sooner := func(until int64) {
		if until > now && (first == 0 || until < first) {
			first = until
		}
	}
	for i := range r.Holds {
		sooner(r.Holds[i].Until)
	}
	if r.headed(id, now) {
		sooner(r.Head.Until)
	}
	if first == 0 {
		return 0
	}
	return time.Duration(first-now) * time.Microsecond
}

// Live gives what an operator sees: the live holds, in the order of their grants.
func (r *Record) Live(now time.Time) []driver.Holder {
	var live []driver.Holder
	for i := range r.Holds {
		h := &r.Holds[i]
		if !h.live(now.UnixMicro()) {
			continue
		}
		seen := driver.NewHolder(h.ID, h.Token, time.UnixMicro(h.Until).Sub(now))
		seen.Released, seen.Slot = h.Broken, h.Slot
		seen.Mode, seen.Weight, seen.Of = h.Share.Mode, h.Share.Weight, h.Share.Of
		live = append(live, seen)
	}
	return live
}

// End is when the last lease, and the headship, are over. Afterwards the record is of use for its token alone.
func (r *Record) End() time.Time {
	end := r.Head.Until
	for i := range r.Holds {
		end = max(end, r.Holds[i].Until)
	}
	return time.UnixMicro(end)
}
