package faults

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/coordgo/coord"
)

// A line is what a process of an attack saw, or what its nemesis did. Times are of the machine's monotonic clock, in ns.
type line struct {
	Event   string      // one of those below
	T, Call int64       `json:",omitzero"` // of a grant and a signal: after and before the call; else before what shows it
	Process int         `json:",omitzero"`
	Key     string      `json:",omitzero"`
	ID      string      `json:",omitzero"` // of a hold, or a wait
	Mode    string      `json:",omitzero"` // of a hold
	Weight  int         `json:",omitzero"`
	Of      int         `json:",omitzero"`
	Slot    int         `json:",omitzero"`
	Token   coord.Token `json:",omitzero"`
	Text    string      `json:",omitzero"`
}

const (
	granted   = "granted"   // a call has returned a hold
	certain   = "certain"   // the hold was held at T: its Err was nil, or its Unlock, after that
	waits     = "waits"     // a Wait begins, under the token
	woken     = "woken"     // it returned, with another token
	gone      = "gone"      // it failed
	signalled = "signalled" // under the token; a broadcast too
	broadcast = "broadcast"
	refused   = "refused" // by the resource, though the hold of the token was still certain
	wrong     = "wrong"   // what no fault excuses
	killed    = "killed"  // a process
	calm      = "calm"    // nothing is broken from T on, all processes live, and what died before is over; broken ends it
	broken    = "broken"
	forgets   = "forgets" // the store does, some time between Call and T
)

const (
	modeLock, modeRead, modeWrite, modePermits = "lock", "read", "write", "permits"
	// wakes is how long it may take in a calm until one that was signalled has the lock again. Unsignalled it wakes later,
	// after its lease.
	wakes = 6 * time.Second
)

// aHold is what one hold certainly was.
type aHold struct {
	line
	until int64 // it certainly was held from T to then
}

// verdict is what the judge found.
type verdict struct {
	holds, definite int                      // definite ones certainly lasted for a while
	signals, waits  int                      // judged signals, and waits that were signalled by them
	longest         map[string]time.Duration // from a call to its grant, by key, also of processes that were frozen meanwhile
	faults          []string
}

func (v *verdict) fault(format string, args ...any) {
	v.faults = append(v.faults, fmt.Sprintf(format, args...))
}

// judge looks at the lines of an attack, and trusts nothing of coord but what each process was told.
func judge(lines []line) *verdict {
	v := &verdict{longest: map[string]time.Duration{}}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.T, b.T) })
	byKey, byID, losses := map[string][]*aHold{}, map[string]*aHold{}, []line{}
	for _, l := range lines {
		switch l.Event {
		case granted:
			h := &aHold{line: l, until: l.T}
			byKey[l.Key], byID[l.ID] = append(byKey[l.Key], h), h
			v.longest[l.Key] = max(v.longest[l.Key], time.Duration(l.T-l.Call).Round(time.Millisecond))
		case certain:
			if h := byID[l.ID]; h != nil {
				h.until = max(h.until, l.T)
			}
		case forgets:
			losses = append(losses, l)
		case wrong:
			v.fault("process %d at %v: %s", l.Process, time.Duration(l.T), l.Text)
		}
	}
	// A store that forgets may have forgotten what was granted before it had forgotten all.
	forgotten := func(granted, later int64) bool {
		return slices.ContainsFunc(losses, func(l line) bool { return granted < l.T && l.Call < later })
	}
	for _, l := range lines {
		if h := byID[l.ID]; l.Event == refused && (h == nil || !forgotten(h.Call, l.T)) {
			v.fault("process %d at %v: the resource refused token %d of %s, which was certainly held", l.Process, time.Duration(l.T), l.Token, l.Key)
		}
	}
	for _, holds := range byKey {
		v.holds += len(holds)
		v.overlaps(holds, forgotten)
		v.tokens(holds)
	}
	v.wakeUps(lines)
	return v
}

// overlaps compares each hold with those that certainly were held when it began. Holds are in the order in which they began.
func (v *verdict) overlaps(holds []*aHold, forgotten func(granted, later int64) bool) {
	var live []*aHold
	for _, h := range holds {
		live = slices.DeleteFunc(live, func(o *aHold) bool { return o.until <= h.T })
		if h.until == h.T {
			continue
		}
		v.definite++
		sum, least := h.Weight, h.Of
		for _, o := range live {
			switch {
			case forgotten(o.Call, h.T):
				continue
			case h.Mode == modeLock || h.Mode == modeWrite || o.Mode == modeWrite:
				v.fault("%s: %s (%s, token %d) from %v beside %s (%s, token %d), which lasts until %v", h.Key, h.ID, h.Mode, h.Token,
					time.Duration(h.T), o.ID, o.Mode, o.Token, time.Duration(o.until))
			case h.Slot == o.Slot:
				v.fault("%s: slot %d of %s at %v, which %s has until %v", h.Key, h.Slot, h.ID, time.Duration(h.T), o.ID, time.Duration(o.until))
			}
			sum, least = sum+o.Weight, min(least, o.Of)
		}
		if sum > least {
			v.fault("%s: %d permits of %d with %s at %v", h.Key, sum, least, h.ID, time.Duration(h.T))
		}
		live = append(live, h)
	}
}

// tokens rise from each hold to all that were asked for after it was granted, and none is given twice.
func (v *verdict) tokens(holds []*aHold) {
	byCall, seen := slices.Clone(holds), map[coord.Token]string{}
	slices.SortFunc(byCall, func(a, b *aHold) int { return cmp.Compare(a.Call, b.Call) })
	var greatest *aHold
	for _, h := range byCall {
		for len(holds) > 0 && holds[0].T < h.Call {
			if greatest == nil || holds[0].Token > greatest.Token {
				greatest = holds[0]
			}
			holds = holds[1:]
		}
		if greatest != nil && h.Token <= greatest.Token {
			v.fault("%s: token %d of %s after %d of %s", h.Key, h.Token, h.ID, greatest.Token, greatest.ID)
		}
		if other := seen[h.Token]; other != "" {
			v.fault("%s: token %d of %s, which %s has", h.Key, h.Token, h.ID, other)
		}
		seen[h.Token] = h.ID
	}
}

// aWait is one Wait.
type aWait struct {
	line
	end    int64       // when it returned or failed, or its process was killed, else MaxInt64
	next   coord.Token // that it returned with
	failed bool
	dead   bool
	popped bool // a signal was for it
}

// wakeUps follows the signals of calms: each is for the one that waits longest, or the next if that one fails. All is ordered by
// the tokens of the lock.
func (v *verdict) wakeUps(lines []line) {
	var all []*aWait
	byID := map[string]*aWait{}
	for _, l := range lines {
		switch l.Event {
		case waits:
			w := &aWait{line: l, end: math.MaxInt64}
			byID[l.ID], all = w, append(all, w)
		case woken, gone:
			if w := byID[l.ID]; w != nil {
				w.end, w.next, w.failed = l.T, l.Token, l.Event == gone
			}
		case killed:
			for _, w := range all {
				if w.Process == l.Process && w.end == math.MaxInt64 {
					w.end, w.dead = l.T, true
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b *aWait) int { return cmp.Compare(a.Token, b.Token) })
	ends := calmEnds(lines)
	for _, s := range lines {
		end := ends(s.Call, s.T)
		if s.Event != signalled && s.Event != broadcast || end == 0 {
			continue
		}
		v.signals++
		began := s.T
		for _, w := range all {
			if w.Token >= s.Token || w.popped || w.dead && w.end < s.Call || w.failed && w.end < s.Call || w.next != 0 && w.next <= s.Token {
				continue
			}
			w.popped = true
			v.waits++
			if late := min(w.end, end) - began; late > int64(wakes) {
				v.fault("%s: %s (token %d) still waited %v after %s under token %d at %v", s.Key, w.ID, w.Token, time.Duration(late), s.Event, s.Token, time.Duration(s.T))
			}
			if s.Event == broadcast {
				continue
			}
			if !w.failed || w.dead {
				break
			}
			began = max(began, w.end)
		}
	}
}

// calmEnds gives the end of the calm that a span of time is in, 0 if it is in none.
func calmEnds(lines []line) func(from, to int64) int64 {
	var calms []aHold
	for _, l := range lines {
		switch n := len(calms); {
		case l.Event == calm:
			calms = append(calms, aHold{l, math.MaxInt64})
		case l.Event == broken && n > 0:
			calms[n-1].until = min(calms[n-1].until, l.T)
		}
	}
	return func(from, to int64) int64 {
		for _, c := range calms {
			if c.T <= from && to < c.until {
				return c.until
			}
		}
		return 0
	}
}

func TestJudgeOfAttacks(t *testing.T) {
	s := int64(time.Second)
	hold := func(id, mode string, weight, slot int, token coord.Token, call, from, until int64) []line {
		return []line{
			{Event: granted, Key: "k", ID: id, Mode: mode, Weight: weight, Of: 3, Slot: slot, Token: token, Call: call, T: from},
			{Event: certain, ID: id, T: until},
		}
	}
	wait := func(id string, token coord.Token, at int64) line {
		return line{Event: waits, Key: "k", ID: id, Token: token, T: at, Process: int(token)}
	}
	woke := func(id string, token coord.Token, at int64) line {
		return line{Event: woken, ID: id, Token: token, T: at}
	}
	signal := func(event string, token coord.Token, at int64) line {
		return line{Event: event, Key: "k", Token: token, Call: at, T: at + 1}
	}
	quiet := line{Event: calm, T: 1}
	for name, tc := range map[string]struct {
		faults int
		lines  []line
	}{
		"nothing":                       {0, nil},
		"one after the other":           {0, append(hold("a", modeLock, 0, 0, 1, 0, 1, 5), hold("b", modeLock, 0, 0, 2, 1, 5, 8)...)},
		"two at once":                   {1, append(hold("a", modeLock, 0, 0, 1, 0, 1, 5), hold("b", modeLock, 0, 0, 2, 1, 4, 8)...)},
		"two at once that is not shown": {0, append(hold("a", modeLock, 0, 0, 1, 0, 1, 5), hold("b", modeLock, 0, 0, 2, 1, 4, 4)...)},
		"two after the store forgot": {0, slices.Concat(hold("a", modeLock, 0, 0, 1, 0, 1, 5), hold("b", modeLock, 0, 0, 2, 1, 4, 8),
			[]line{{Event: forgets, Call: 2, T: 3}})},
		"a token that falls":          {1, append(hold("a", modeLock, 0, 0, 2, 0, 1, 2), hold("b", modeLock, 0, 0, 1, 3, 4, 5)...)},
		"a token twice":               {1, append(hold("a", modeRead, 0, 0, 2, 0, 3, 4), hold("b", modeRead, 0, 1, 2, 0, 3, 4)...)},
		"readers":                     {0, append(hold("a", modeRead, 0, 0, 1, 0, 1, 5), hold("b", modeRead, 0, 1, 2, 0, 2, 8)...)},
		"a reader beside a writer":    {1, append(hold("a", modeWrite, 0, 0, 1, 0, 1, 5), hold("b", modeRead, 0, 1, 2, 0, 2, 8)...)},
		"a writer beside a reader":    {1, append(hold("a", modeRead, 0, 0, 1, 0, 1, 5), hold("b", modeWrite, 0, 1, 2, 0, 2, 8)...)},
		"a slot twice":                {1, append(hold("a", modeRead, 0, 0, 1, 0, 1, 5), hold("b", modeRead, 0, 0, 2, 0, 2, 8)...)},
		"all permits":                 {0, append(hold("a", modePermits, 2, 0, 1, 0, 1, 5), hold("b", modePermits, 1, 1, 2, 0, 2, 8)...)},
		"more permits than there are": {1, append(hold("a", modePermits, 2, 0, 1, 0, 1, 5), hold("b", modePermits, 2, 1, 2, 0, 2, 8)...)},
		"a token refused while held":  {1, append(hold("a", modeLock, 0, 0, 1, 0, 1, 5), line{Event: refused, ID: "a", T: 4})},
		"what a process saw":          {1, []line{{Event: wrong, Text: "it waited for a minute"}}},
		"a signal":                    {0, []line{quiet, wait("a", 1, 2), signal(signalled, 2, 3), woke("a", 3, 5)}},
		"a lost signal":               {1, []line{quiet, wait("a", 1, 2), signal(signalled, 2, 3), woke("a", 3, 9*s)}},
		"a signal before the wait":    {0, []line{quiet, signal(signalled, 1, 2), wait("a", 2, 3), woke("a", 3, 9*s)}},
		"a signal in no calm":         {0, []line{wait("a", 1, 2), signal(signalled, 2, 3), woke("a", 3, 9*s)}},
		"a second signal is for the second": {1, []line{
			quiet, wait("a", 1, 2), wait("b", 2, 3), signal(signalled, 3, 4), signal(signalled, 4, 5), woke("a", 5, 6), woke("b", 6, 9*s),
		}},
		"one signal wakes one": {0, []line{quiet, wait("a", 1, 2), wait("b", 2, 3), signal(signalled, 3, 4), woke("a", 5, 6), woke("b", 6, 9*s)}},
		"a signal that is passed on": {0, []line{
			quiet, wait("a", 1, 2), wait("b", 2, 3), signal(signalled, 3, 4), {Event: gone, ID: "a", T: 6}, woke("b", 6, 8),
		}},
		"a signal that is not passed on": {1, []line{
			quiet, wait("a", 1, 2), wait("b", 2, 3), signal(signalled, 3, 4), {Event: gone, ID: "a", T: 6}, woke("b", 6, 9*s),
		}},
		"a broadcast that one sleeps through": {1, []line{
			quiet, wait("a", 1, 2), wait("b", 2, 3), signal(broadcast, 3, 4), woke("a", 5, 6), woke("b", 6, 9*s),
		}},
		"a signal to a dead one": {0, []line{
			quiet, wait("a", 1, 2), wait("b", 2, 3), signal(signalled, 3, 4), {Event: killed, Process: 1, T: 6}, woke("b", 6, 9*s),
		}},
	} {
		if v := judge(tc.lines); len(v.faults) != tc.faults {
			t.Errorf("%s: found %q, want %d", name, v.faults, tc.faults)
		}
	}
}
