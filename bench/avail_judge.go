package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

// span is a stretch of a run.
type span struct{ from, to time.Duration }

func (s span) length() time.Duration { return max(s.to-s.from, 0) }

// heldSpan is one hold of one process, as the process saw it.
type heldSpan struct {
	span
	by *availProcess
	// lost: the process found at the end that the lock was no longer its own, or it died. It has
	// done nothing under the lock after it was frozen last.
	lost bool
}

// availRun is what happened in one run of one subject.
type availRun struct {
	took   time.Duration
	holds  []heldSpan
	errors int // calls of Lock that failed
}

// figures sums the run up. A hold that its process believed in to its end must overlap no other.
func (r *availRun) figures() figures {
	holds := slices.Clone(r.holds)
	slices.SortFunc(holds, func(a, b heldSpan) int { return cmp.Compare(a.from, b.from) })
	var alive []span
	per := make([]int, availProcesses)
	for _, h := range holds {
		per[h.by.place]++
		alive = append(alive, h.alive()...)
	}
	gaps := gapsOf(alive, r.took)
	held := r.took
	for _, g := range gaps {
		held -= g
	}
	slices.Sort(gaps)
	f := figures{
		"grants": float64(len(holds)), "held_share": held.Seconds() / r.took.Seconds(), "jain": bench.Jain(per),
		"overlaps": float64(overlapsOf(holds)), "errors": float64(r.errors), "idle_p50_ms": 0, "idle_p90_ms": 0, "idle_max_ms": 0,
	}
	if n := len(gaps); n > 0 {
		f["idle_p50_ms"], f["idle_p90_ms"], f["idle_max_ms"] = millis(gaps[n/2]), millis(gaps[n*9/10]), millis(gaps[n-1])
	}
	return f
}

// believed is the part of h in which its process acted as the holder: all of it, or, if it was
// lost, what came before the process was frozen last.
func (h heldSpan) believed() span {
	s := h.span
	if !h.lost {
		return s
	}
	for _, f := range h.by.frozen {
		// A process is noted as frozen just before it is: it may be granted the lock in between.
		if f.to > h.from && f.from < s.to {
			s.to = max(f.from, h.from)
		}
	}
	return s
}

// alive are the parts of h in which its process held the lock and ran.
func (h heldSpan) alive() (parts []span) {
	rest := h.believed()
	for _, f := range h.by.frozen {
		if f.to <= rest.from || f.from >= rest.to {
			continue
		}
		if f.from > rest.from {
			parts = append(parts, span{rest.from, f.from})
		}
		rest.from = min(f.to, rest.to)
	}
	if rest.length() > 0 {
		parts = append(parts, rest)
	}
	return parts
}

// overlaps counts holds that began while another was believed in. holds are sorted.
func overlapsOf(holds []heldSpan) (n int) {
	var until time.Duration
	for i, h := range holds {
		s := h.believed()
		if i > 0 && s.from < until {
			n++
		}
		until = max(until, s.to)
	}
	return n
}

// gapsOf are the stretches of a run in which nothing of parts was.
func gapsOf(parts []span, took time.Duration) (gaps []time.Duration) {
	slices.SortFunc(parts, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var until time.Duration
	for _, p := range append(parts, span{took, took}) {
		if p.from > until {
			gaps = append(gaps, p.from-until)
		}
		until = max(until, p.to)
	}
	return gaps
}
