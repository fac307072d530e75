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

// heldSpan is one hold of one process, or its term as leader, as the process saw it.
type heldSpan struct {
	span
	by *availProcess
	// lost: the process found at the end that the lock was no longer its own, or it died. It has
	// done nothing under the lock after it was frozen last, except before sure.
	lost bool
	sure time.Duration // when it found last that the lock was its own still
}

// availRun is what happened in one run of one subject.
type availRun struct {
	took   time.Duration
	holds  []heldSpan
	errors int // calls of Lock or Campaign that failed
}

// figures sums the run up. A hold that its process believed in to its end must overlap no other.
func (r *availRun) figures() figures {
	holds := slices.Clone(r.holds)
	slices.SortFunc(holds, func(a, b heldSpan) int { return cmp.Compare(a.from, b.from) })
	var alive []span
	per := make([]int, availProcesses)
	changes := 0
	var handed []time.Duration // from a hold that was given back to the next
	for i, h := range holds {
		per[h.by.place]++
		if i > 0 && h.by != holds[i-1].by {
			changes++
		}
		if i > 0 && !holds[i-1].lost {
			handed = append(handed, max(h.from-holds[i-1].to, 0))
		}
		alive = append(alive, h.alive()...)
	}
	gaps := gapsOf(alive, r.took)
	held := r.took
	for _, g := range gaps {
		held -= g
	}
	slices.Sort(gaps)
	slices.Sort(handed)
	f := figures{
		"grants": float64(len(holds)), "changes": float64(changes), "held_share": held.Seconds() / r.took.Seconds(), "jain": bench.Jain(per),
		"overlaps": float64(overlapsOf(holds)), "errors": float64(r.errors), "idle_p50_ms": 0, "idle_p90_ms": 0, "idle_max_ms": 0,
	}
	if n := len(gaps); n > 0 {
		f["idle_p50_ms"], f["idle_p90_ms"], f["idle_max_ms"] = millis(gaps[n/2]), millis(gaps[n*9/10]), millis(gaps[n-1])
	}
	if n := len(handed); n > 0 {
		f["handed_p50_ms"] = millis(handed[n/2])
	}
	return f
}

// believed is the part of h in which its process acted as the holder: all of it, or, if it was
// lost, what came before the process was frozen last, since it was sure.
func (h heldSpan) believed() span {
	s := h.span
	if !h.lost {
		return s
	}
	sure := max(h.from, h.sure)
	for _, f := range h.by.frozen {
		// A process is noted as frozen just before it is: it may be granted the lock in between.
		if f.to > sure && f.from < s.to {
			s.to = max(f.from, sure)
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
