package main

import (
	"cmp"
	"slices"

	"github.com/coordgo/coord"
)

// tenure is the time from a leader's first sign to its last.
type tenure struct {
	leader      string
	token       coord.Token
	first, last int64
	signs       int
}

// record adds a sign to the tenure that it belongs to, and tells how many that has.
func record(all []tenure, leader string, s sign) (_ []tenure, signs int) {
	i := slices.IndexFunc(all, func(t tenure) bool { return t.leader == leader && t.token == s.Token })
	if i < 0 {
		i, all = len(all), append(all, tenure{leader: leader, token: s.Token, first: s.At})
	}
	all[i].last = s.At
	all[i].signs++
	return all, all[i].signs
}

// audit counts the leaders who began before the one before them had ended, and tells whether tokens rise.
func audit(all []tenure) (overlaps int, rising bool) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b tenure) int { return cmp.Compare(a.first, b.first) })
	rising = true
	var last int64
	for i, t := range all {
		if i > 0 && t.first <= last {
			overlaps++
		}
		rising = rising && (i == 0 || all[i-1].token < t.token)
		last = max(last, t.last)
	}
	return overlaps, rising
}
