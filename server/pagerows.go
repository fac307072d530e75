package server

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
)

// What the page shows at most.
const (
	shownLocks  = 100
	shownLimits = 100
)

type locksView struct {
	At             time.Time // zero: not known yet
	Rows           []lockRow
	Holds, Waiting int // in all
	Matching       int // of them those that the filter matches
	More, Ours     bool
	Problem        string
}

// lockRow is a hold.
type lockRow struct {
	DOM, Key, Kind, Who, ID, Mode string
	PID, Slot, Waiting            int
	Asked, Until                  time.Time
	Left                          time.Duration
	Token                         coord.Token
	Kept, MayBreak                bool
	Problem                       string
}

func (v *view) locks(l *looking, seen locksSeen) {
	v.Locks = locksView{At: seen.at, More: seen.more, Ours: seen.ours}
	if seen.err != nil {
		v.Locks.Problem = seen.err.Error()
	}
	for i := range seen.list {
		h := &seen.list[i]
		if l.c.may(config.Read, h.key) != nil {
			continue
		}
		v.Locks.Holds++
		v.Locks.Waiting += max(h.Waiters, 0)
		switch {
		case l.key == "" && !contains(l.filter, h.key, h.Name):
			continue
		case len(v.Locks.Rows) < shownLocks:
			v.Locks.Rows = append(v.Locks.Rows, l.row(h, v.Now))
		}
		v.Locks.Matching++
	}
}

func (l *looking) row(h *lockSeen, now time.Time) lockRow {
	r := lockRow{
		DOM: domID(h.name()), Key: h.key, Kind: kindOf(h.Holder), Who: cmp.Or(h.Name, h.ID), ID: h.ID, Mode: h.Mode.String(),
		PID: h.PID, Slot: h.Slot, Waiting: h.Waiters, Asked: h.Since, Until: h.until, Left: max(h.until.Sub(now), 0),
		Token: h.Token, Kept: h.Released, MayBreak: l.p.mayAct(l.c, h.key),
	}
	if h.err != nil {
		r.Problem = h.err.Error()
	}
	return r
}

// domID is the id of the element of what has that name.
func domID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "x" + hex.EncodeToString(sum[:8])
}

// contains reports whether one of the texts contains what is looked for, in whatever letters.
func contains(filter string, texts ...string) bool {
	filter = strings.ToLower(filter)
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), filter) })
}

// kindOf says how a key is held, in the words of coord status.
func kindOf(h coord.Holder) string {
	kind := h.Mode.String()
	switch {
	case h.Mode == driver.Exclusive && h.Leader:
		return "leader"
	case h.Mode == driver.Exclusive:
		return "lock"
	case h.Mode == driver.Permits:
		kind = fmt.Sprintf("%d of %d permits", h.Weight, h.Of)
	}
	if h.Leader {
		kind += ", leader"
	}
	return kind
}

// changedEnds are the ends of leases, in milliseconds since 1970, that are not as in known, which has them afterwards.
func (v *view) changedEnds(known map[string]int64) map[string]int64 {
	changed := make(map[string]int64)
	for i := range v.Locks.Rows {
		r := &v.Locks.Rows[i]
		if ends := r.Until.UnixMilli(); known[r.DOM] != ends {
			changed[r.DOM] = ends
		}
	}
	clear(known)
	for i := range v.Locks.Rows {
		known[v.Locks.Rows[i].DOM] = v.Locks.Rows[i].Until.UnixMilli()
	}
	return changed
}

type limitsView struct {
	At         time.Time // zero: not known yet
	Rows       []limitRow
	All        int
	Near       int // of them those that are nearly used up
	Denied     float64
	NotCounted bool
	Matching   int
	More       bool
	Problem    string
}

// limitRow is what is left of a limit.
type limitRow struct {
	DOM, Key, Limit, Word string
	Left, Most, Used      int // Used in percent
	Full                  time.Duration
	Allowed, Denied       float64
	MayReset              bool
}

func newLimitRow(s *limitSeen) limitRow {
	r := limitRow{
		DOM: domID(s.limit.String() + "\x00" + s.key), Key: s.key, Limit: s.limit.String(), Left: s.left, Most: s.most,
		Used: int(100 * s.used()), Full: s.full, Allowed: s.allowed, Denied: s.denied,
	}
	switch {
	case s.left == 0:
		r.Word = "used up"
	case s.used() >= nearly:
		r.Word = "nearly used up"
	}
	return r
}

// nearly is from which part on a limit is nearly used up.
const nearly = 0.8

func (v *view) limits(l *looking, seen *scene) {
	v.Limits = limitsView{At: seen.limits.at, More: seen.limits.more, NotCounted: l.p.sampler.decisions == nil}
	if seen.limits.err != nil {
		v.Limits.Problem = "The error is of a key that you may not read."
		if l.c.may(config.Read, seen.limits.of) == nil {
			v.Limits.Problem = seen.limits.err.Error()
		}
	}
	for i := range seen.limits.list {
		s := &seen.limits.list[i]
		if l.c.may(config.Read, s.key) != nil {
			continue
		}
		v.Limits.All++
		v.Limits.Denied += s.denied
		r := newLimitRow(s)
		r.MayReset = l.p.mayAct(l.c, s.key)
		if r.Word != "" {
			v.Limits.Near++
		}
		if !contains(l.filter, s.key) {
			continue
		}
		if v.Limits.Matching++; len(v.Limits.Rows) < shownLimits {
			v.Limits.Rows = append(v.Limits.Rows, r)
		}
	}
	if v.All { // who may read all is told of all, also of what has no row
		v.Limits.Denied = seen.decisions.denied
	}
}
