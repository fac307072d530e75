package demo

import (
	"errors"
	"slices"
	"time"

	"github.com/coordgo/coord"
)

const (
	takers = 12
	during = 3 * time.Second
)

// share: twelve processes take all that one limit gives.
func (s *stage) share() (err error) {
	limit := coord.PerSecond(200)
	s.act("%d processes share one limit, %v, for %v", takers, limit, during)
	jobs := make([]job, takers)
	for i := range jobs {
		jobs[i] = job{Role: limiter, Name: letter(i), Limit: limit, Last: during}
	}
	all, err := s.startAll(jobs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end(all...)) }()
	for _, p := range all {
		if err := p.tell(wordGo); err != nil {
			return err
		}
	}
	var takes []take
	denied := 0
	for _, p := range all {
		e, err := s.hear(p, done)
		if err != nil {
			return err
		}
		takes = append(takes, e.Takes...)
		denied += e.Denied
	}
	first, most := busiest(takes, limit.Per)
	s.check(first <= limit.Rate, "admitted %d and denied %d; in the first second %d", len(takes), denied, first)
	if first < limit.Rate {
		s.note("the store is too slow, or too far away, for %d processes to reach the limit", takers)
	}
	s.check(most <= limit.Rate, "never more than %d in any second, of all that begin with a permit", most)
	return nil
}

// busiest counts the permits of the first period and of the fullest one. A permit counts
// as inside a period if it was asked for and received within it, so that no
// count is above what the store granted in a period of that length.
func busiest(takes []take, per time.Duration) (first, most int) {
	takes = slices.Clone(takes)
	slices.SortFunc(takes, func(a, b take) int { return int(a.Sent - b.Sent) })
	for i, start := range takes {
		end := start.Sent + per.Nanoseconds()
		n := 0
		for _, t := range takes[i:] {
			if t.Sent >= end {
				break
			}
			if t.Received < end {
				n++
			}
		}
		if i == 0 {
			first = n
		}
		most = max(most, n)
	}
	return first, most
}
