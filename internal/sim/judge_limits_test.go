package sim

import (
	"slices"
	"time"

	"github.com/coordgo/coord"
)

// spends are permits that were granted, by key.
type spends struct{ of map[string][]spend }

// spend is some permits that were certainly granted, or charged, between two moments.
type spend struct {
	n        int
	from, to time.Duration
	charged  bool
}

// judgeSpends wants no more permits than a limit has, in any time.
func (w *world) judgeSpends() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, list := range w.of {
		limit := limited[key]
		slices.SortFunc(list, func(a, b spend) int { return int(a.from - b.from) })
		for i := range list {
			if n, most, ok := exceeds(limit, list[i:], w.began); ok {
				w.violate("limit", "%d permits of %q from %v, at most %d", n, key, list[i].from, most)
				break
			}
		}
	}
}

// exceeds reports whether more was granted, from the first on, than the limit has in some time. What is charged is not
// asked for: it only has to be missed by those who ask later.
func exceeds(limit coord.Limit, list []spend, began time.Time) (n, most int, ok bool) {
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
	for _, s := range inside {
		n += s.n
		most = limit.Burst + int(float64(limit.Rate)*float64(s.to-first)/float64(limit.Per)) + 1
		if n > most && !s.charged {
			return n, most, true
		}
	}
	return n, most, false
}
