package sim

import (
	"slices"
	"time"

	"github.com/coordgo/coord"
)

// spends are permits that were granted, by key.
type spends struct {
	of      map[string][]spend
	maybe   map[string][]spend // by calls that failed
	denials map[string][]spend
}

// spend is some permits that were certainly granted, or charged, between two moments.
type spend struct {
	n        int
	from, to time.Duration
	charged  bool
}

// asked judges how many permits were granted of those that were asked for.
func (k *worker) asked(key string, n, granted int, atMost bool) {
	if granted == n || atMost && 0 < granted && granted < n {
		return
	}
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.w.violate("limit", "%s was granted %d permits of %q, and asked for %d", k.name, granted, key, n)
}

// failed notes permits that a call which failed may have been granted, then or a moment later.
func (k *worker) failed(key string, n int, from time.Time) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.w.maybe[key] = append(k.w.maybe[key], spend{n: n, from: from.Sub(k.w.began), to: time.Since(k.w.began) + time.Second})
}

// denied notes a denial of n permits.
func (k *worker) denied(key string, n int, from time.Time, atMost bool) {
	if atMost {
		n = 1
	}
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.w.denials[key] = append(k.w.denials[key], spend{n: n, from: from.Sub(k.w.began), to: time.Since(k.w.began)})
}

// permitsFor is for how long permits that are taken in advance may wait to be spent.
const permitsFor = 100 * time.Millisecond

// judgeDenials wants a reason for each denial by a window, where all is known: those who had permits in the time before.
func (w *world) judgeDenials() {
	for _, key := range []string{"sliding", "fixed"} {
		limit := limited[key]
		for _, d := range w.denials[key] {
			n := d.n
			for _, s := range slices.Concat(w.of[key], w.maybe[key]) {
				if s.to >= d.from-limit.Per-limit.Per/50 && s.from <= d.to {
					n += s.n
				}
			}
			if n <= limit.Rate {
				w.violate("denied", "%d permits of %q were denied from %v to %v, though %d were had at most", d.n, key, d.from, d.to, n-d.n)
				return
			}
		}
	}
}

// judgeSpends wants no more permits than a limit has, in any time.
func (w *world) judgeSpends() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.plan.calm() {
		w.judgeDenials()
	}
	for key, list := range w.of {
		limit := limited[key]
		slices.SortFunc(list, func(a, b spend) int { return int(a.from - b.from) })
		for i := range list {
			if n, most, ok := exceeds(limit, list[i:], w.began, w.plan.ahead); ok {
				w.violate("limit", "%d permits of %q from %v, at most %d", n, key, list[i].from, most)
				break
			}
		}
	}
}

// exceeds reports whether more was granted, from the first on, than the limit has in some time. What is charged is not
// asked for: it only has to be missed by those who ask after it, or, where permits are taken in advance, later by as
// much as those may wait.
func exceeds(limit coord.Limit, list []spend, began time.Time, ahead bool) (n, most int, ok bool) {
	first := list[0].from
	var inside []spend
	end := first + limit.Per
	if limit.Algorithm == coord.FixedWindow {
		end = began.Add(first).Truncate(limit.Per).Add(limit.Per).Sub(began)
	}
	if limit.Burst > 0 {
		end = first + 3*time.Second // longer ones are made of these
	}
	for _, s := range list {
		if s.from >= end {
			break
		}
		if s.to < end {
			inside = append(inside, s)
		}
	}
	if limit.Burst == 0 {
		for _, s := range inside {
			n += s.n
		}
		return n, limit.Rate, n > limit.Rate
	}
	slices.SortFunc(inside, func(a, b spend) int { return int(a.to - b.to) })
	granted, old := 0, time.Duration(0)
	if ahead {
		old = permitsFor
	}
	for _, s := range inside {
		if s.charged {
			continue
		}
		granted += s.n
		n = granted
		for _, c := range inside {
			if c.charged && c.to < s.from-old {
				n += c.n
			}
		}
		most = limit.Burst + int(float64(limit.Rate)*float64(s.to-first+permitsFor)/float64(limit.Per)) + 1
		if n > most {
			return n, most, true
		}
	}
	return n, most, false
}
