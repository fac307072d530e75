package redis

import (
	"slices"
	"testing"
)

func TestChoose(t *testing.T) {
	var (
		a0, a1, a2 = view{"a", 0}, view{"a", 1}, view{"a", 2}
		b0, b1, b2 = view{"b", 0}, view{"b", 1}, view{"b", 2}
		c1         = view{"c", 1}
		nobody     = view{}
	)
	for name, tt := range map[string]struct {
		views []view
		of    int
		known view
		more  bool
		want  view
	}{
		"one sentinel":                           {views: []view{a0}, of: 1, want: a0},
		"one sentinel, silent":                   {of: 1, known: a0, want: nobody},
		"two sentinels, one silent":              {views: []view{a0}, of: 2, want: nobody},
		"two sentinels":                          {views: []view{a0, a0}, of: 2, want: a0},
		"all agree":                              {views: []view{a1, a1, a1}, of: 3, want: a1},
		"one is silent":                          {views: []view{a1, a1}, of: 3, want: a1},
		"one may still answer":                   {views: []view{a1, a1}, of: 3, more: true, want: a1},
		"two are silent":                         {views: []view{a1}, of: 3, want: nobody},
		"two are silent, master known":           {views: []view{a1}, of: 3, known: a1, want: nobody},
		"nobody answers":                         {of: 3, want: nobody},
		"a minority is behind":                   {views: []view{a0, b1, b1}, of: 3, known: a0, want: b1},
		"a minority is behind, one is silent":    {views: []view{a0, b1}, of: 3, known: a0, want: b1},
		"they differ, one may still answer":      {views: []view{a0, b1}, of: 3, more: true, want: nobody},
		"one knows of the failover first":        {views: []view{a0, b1, a0}, of: 3, known: a0, want: b1},
		"a majority behind, one may still tell":  {views: []view{a0, a0}, of: 3, more: true, want: a0},
		"the majority forgot what is known":      {views: []view{a0, a0}, of: 3, known: b1, want: nobody},
		"all forgot what is known":               {views: []view{a0, a0, a0}, of: 3, known: b1, want: nobody},
		"behind what is known, more may come":    {views: []view{a0, a0}, of: 3, known: b1, more: true, want: nobody},
		"back again":                             {views: []view{a2, a2, b1}, of: 3, known: b1, want: a2},
		"one epoch, two addresses":               {views: []view{b1, c1, b1}, of: 3, known: a0, want: b1},
		"one epoch, two addresses, no more say":  {views: []view{b1, c1}, of: 3, known: a0, want: nobody},
		"one epoch, three addresses":             {views: []view{a1, b1, c1}, of: 3, want: nobody},
		"a tie below the highest epoch":          {views: []view{a0, b0, a1}, of: 3, want: a1},
		"another address at the known epoch":     {views: []view{b1, b1, b1}, of: 3, known: a1, want: b1},
		"five, old master with two":              {views: []view{a0, a0, b1, b1, b1}, of: 5, known: a0, want: b1},
		"five, old master with two, two silent":  {views: []view{a0, a0, b1}, of: 5, known: a0, want: b1},
		"five, old master with two, more coming": {views: []view{a0, a0, b1}, of: 5, known: a0, more: true, want: nobody},
		"five, only the old side answers":        {views: []view{a0, a0}, of: 5, known: a0, want: nobody},
		"five, three agree":                      {views: []view{b1, b1, b1}, of: 5, more: true, want: b1},
		"five, two failovers":                    {views: []view{a0, b1, b1, a2, a2}, of: 5, known: b1, want: a2},
		"five, two failovers, b is last":         {views: []view{a0, a1, a1, b2, a1}, of: 5, known: a1, want: b2},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // in either order
				got, ok := choose(tt.views, tt.of, tt.known, tt.more)
				if got != tt.want || ok != (tt.want != nobody) {
					t.Errorf("%v of %d, known %v: %v, %v, want %v", tt.views, tt.of, tt.known, got, ok, tt.want)
				}
				slices.Reverse(tt.views)
			}
		})
	}
}
