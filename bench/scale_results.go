package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

// scaleSchema is the version of Scale. It rises when a field changes its meaning.
const scaleSchema = 1

// Scale is what was found of how cost grows.
type Scale struct {
	Schema    int               `json:"schema"`
	Mode      string            `json:"mode"`
	Date      time.Time         `json:"date"`
	Machine   bench.Machine     `json:"machine"`
	LoadAfter float64           `json:"load_average_after"`
	Took      float64           `json:"took_s"`
	Stores    map[string]string `json:"stores"` // with their versions
	Series    []*Series         `json:"series"`
}

// Series is one cost on one store, at growing numbers.
type Series struct {
	Name    string    `json:"series"`
	Store   string    `json:"store"`
	Subject string    `json:"subject"`
	Date    time.Time `json:"date"`
	Load    float64   `json:"load_average"`
	Took    float64   `json:"took_s"`
	Points  []Point   `json:"points"`
	// Stopped says why it does not go as far as others.
	Stopped string `json:"stopped,omitempty"`
	Failed  string `json:"failed,omitempty"`
}

// Point is what was found at a number. Figures are named with their units.
type Point struct {
	N       int     `json:"n"`
	Figures figures `json:"figures"`
}

func (s *Series) last() Point { return s.Points[len(s.Points)-1] }

// middle is the step that the last one is compared with.
func (s *Series) middle() Point { return s.Points[len(s.Points)/2] }

// nearest is the step whose number is nearest to n, as a ratio.
func (s *Series) nearest(n int) Point {
	return slices.MinFunc(s.Points, func(a, b Point) int {
		away := func(p Point) float64 { return math.Abs(math.Log(float64(p.N) / float64(n))) }
		return cmp.Compare(away(a), away(b))
	})
}

// of is the series of a store, nil if it was not measured.
func (r *Scale) of(name, store, subject string) *Series {
	for _, s := range r.Series {
		if s.Name == name && s.Store == store && s.Subject == subject && len(s.Points) > 0 {
			return s
		}
	}
	return nil
}

// keep takes over what old has and r has not.
func (r *Scale) keep(old *Scale) {
	measured := r.Series
	r.Series = nil
	used := make(map[*Series]bool)
	for _, o := range old.Series {
		for _, s := range measured {
			if s.Name == o.Name && s.Store == o.Store && s.Subject == o.Subject {
				o = s
				used[s] = true
			}
		}
		r.Series = append(r.Series, o)
	}
	for _, s := range measured {
		if !used[s] {
			r.Series = append(r.Series, s)
		}
	}
	for name, version := range old.Stores {
		if r.Stores[name] == "" {
			r.Stores[name] = version
		}
	}
}

func (r *Scale) write(path string) error {
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

func readScale(path string) (*Scale, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(Scale)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Schema != scaleSchema {
		return nil, fmt.Errorf("%s: schema %d, want %d: run make bench-scale", path, r.Schema, scaleSchema)
	}
	return r, nil
}

// rule says that what one item costs must not grow with their number: then the cost of all
// grows no faster than linearly.
type rule struct {
	timed  bool // it is a time, or a rate: on a machine that does other work it says little
	figure string
	what   string // the cost of one item, in words
	total  bool   // the figure is of all items
	rate   bool   // the figure is a rate of all together: its inverse, in µs, is the cost
	// bare is the figure of what uses the machine in the same way without being ours: a growth that it shares is
	// the machine's.
	bare  string
	floor float64 // below it, a difference is chance
	// grain is what the store's figure of all may be off by, by stores, however many there are: below the share
	// of each that the middle step adds, a difference is chance.
	grain  map[string]float64
	atMost float64 // by how much one item may cost more at the last step than at the middle one
	// atMostOn is atMost on stores that are known to grow faster.
	atMostOn map[string]float64
	// unlike has, by subject, another one with which the last step is compared, at the same number or, where one of
	// them has stopped before, the nearest: what the subject does for an item is not the same at few and at many.
	unlike map[string]string
}

// cost is what one item costs at p, as it was measured, and no less than least.
func (r rule) cost(p Point, least float64) (told, judged float64, ok bool) {
	v, ok := p.Figures[r.figure]
	switch {
	case r.total:
		v /= float64(p.N)
	case r.rate && v > 0:
		v = 1e6 / v
	case r.rate:
		ok = false
	}
	judged = max(v, least)
	return v, judged, ok && judged > 0
}

// growth is how a cost grows from the middle step to the last.
type growth struct {
	rule
	series   *Series
	first    *Series // the series that from is of
	base     Point
	from, to float64 // the cost of one item
	shared   float64 // by how much a bare use costs more, 1 if it costs no more
	times    float64 // beyond that
	exponent float64 // of the cost of all: 1 is linear; 0: of one number only
}

func (g growth) bad() bool { return g.times > g.atMost }

// busy reports whether the machine did other work when the run began.
func (r *Scale) busy() bool { return r.Machine.Load > float64(r.Machine.Cores)/2 }

// tells reports whether g says something about coord.
func (r *Scale) tells(g growth) bool { return !g.timed || !r.busy() }

// vanished reports whether s has the figure at its middle step, and at the last one not any more: nothing was done there.
func (r rule) vanished(s *Series) bool {
	_, had := s.middle().Figures[r.figure]
	_, has := s.last().Figures[r.figure]
	return had && !has
}

// growth judges s; not ok if it has not the figures, or too few steps.
func (r rule) growth(s *Series) (g growth, ok bool) {
	if len(s.Points) < 2 || s.middle().N == s.last().N {
		return g, false
	}
	if g, ok = r.compare(s, s, s.middle()); ok {
		g.exponent = 1 + math.Log(g.times)/math.Log(float64(s.last().N)/float64(g.base.N))
	}
	return g, ok
}

// compare judges the last step of s by a step of first.
func (r rule) compare(s, first *Series, base Point) (g growth, ok bool) {
	last, least := s.last(), r.least(first, base)
	r.atMost = cmp.Or(r.atMostOn[s.Store], r.atMost)
	from, before, had := r.cost(base, least)
	to, after, has := r.cost(last, least)
	shared := 1.0
	if bare := base.Figures[r.bare]; bare > 0 {
		shared = max(1, last.Figures[r.bare]/bare)
	}
	return growth{rule: r, series: s, first: first, base: base, from: from, to: to, shared: shared, times: after / before / shared}, had && has
}

// least is the cost of one item below which a difference from that at base, a step of s, is chance.
func (r rule) least(s *Series, base Point) float64 {
	added := base.N
	for _, p := range s.Points {
		if p.N < base.N {
			added = base.N - p.N
		}
	}
	return max(r.floor, r.grain[s.Store]/float64(added))
}

// judge judges a series of r by a rule.
func (r *Scale) judge(s *Series, by rule) (g growth, ok bool) {
	subject := by.unlike[s.Subject]
	if subject == "" {
		return by.growth(s)
	}
	other := r.of(s.Name, s.Store, subject)
	if other == nil || len(s.Points) == 0 {
		return g, false
	}
	return by.compare(s, other, other.nearest(s.last().N))
}

// growths are all that can be judged.
func (r *Scale) growths() (list []growth) {
	for _, g := range allGrowing() {
		for _, s := range r.Series {
			if s.Name != g.name {
				continue
			}
			for _, rule := range g.rules {
				if found, ok := r.judge(s, rule); ok {
					list = append(list, found)
				}
			}
		}
	}
	return list
}
