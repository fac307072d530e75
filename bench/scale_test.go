package main

import (
	"bytes"
	"cmp"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// scalerOf measures in short.
func scalerOf(t *testing.T, run string, size scaleSize, stores ...string) *scaler {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	return &scaler{size: size, mode: "tiny", stores: stores, run: regexp.MustCompile(run), log: null}
}

// What grows faster than linearly is found, and what does not is let pass.
func TestGrowthIsJudged(t *testing.T) {
	series := func(cost func(n float64) float64) *Series {
		s := new(Series)
		for _, n := range []int{10, 100, 1000, 10_000, 100_000} {
			s.Points = append(s.Points, Point{n, figures{"v": cost(float64(n))}})
		}
		return s
	}
	flat := func(float64) float64 { return 7 }
	linear := func(n float64) float64 { return 7 * n }
	for name, c := range map[string]struct {
		rule
		cost func(float64) float64
		bad  bool
	}{
		"one costs the same":                 {rule{figure: "v", atMost: 2}, flat, false},
		"one costs more with their number":   {rule{figure: "v", atMost: 2}, linear, true},
		"all cost more with their number":    {rule{figure: "v", total: true, atMost: 2}, linear, false},
		"all cost the square":                {rule{figure: "v", total: true, atMost: 2}, func(n float64) float64 { return n * n }, true},
		"all cost n log n":                   {rule{figure: "v", total: true, atMost: 2}, func(n float64) float64 { return n * math.Log(n) }, false},
		"a rate of nothing":                  {rule{figure: "v", rate: true, atMost: 2}, func(float64) float64 { return 0 }, false},
		"a rate that stays":                  {rule{figure: "v", rate: true, atMost: 2}, flat, false},
		"a rate that breaks down":            {rule{figure: "v", rate: true, atMost: 2}, func(n float64) float64 { return 1e6 / n }, true},
		"little, and twice as much of it":    {rule{figure: "v", floor: 10, atMost: 1.5}, func(n float64) float64 { return n / 1e5 }, false},
		"one costs a little more, as it may": {rule{figure: "v", atMost: 2}, func(n float64) float64 { return 1000 + n/200 }, false},
	} {
		g, ok := c.growth(series(c.cost))
		if ok != (name != "a rate of nothing") || g.bad() != c.bad {
			t.Errorf("%s: %v, grows %v × as N^%.2f", name, ok, g.times, g.exponent)
		}
	}
	if _, ok := (rule{figure: "no"}).growth(series(flat)); ok {
		t.Error("what was not measured was judged")
	}
	if _, ok := (rule{figure: "v"}).growth(&Series{Points: []Point{{1, figures{"v": 1}}}}); ok {
		t.Error("one step was judged")
	}
	judged := func(r rule, store string, mid, last figures) bool {
		g, ok := r.growth(&Series{Store: store, Points: []Point{{1, mid}, {100, mid}, {10_000, last}}})
		if !ok {
			t.Fatalf("%+v is not judged", r)
		}
		return g.bad()
	}
	for _, c := range []struct {
		last     figures
		vanished bool
	}{{figures{"v": 1}, false}, {figures{}, true}} {
		s := &Series{Points: []Point{{1, figures{"v": 1}}, {10, figures{"v": 1}}, {100, c.last}}}
		if (rule{figure: "v"}).vanished(s) != c.vanished || (rule{figure: "no"}).vanished(s) {
			t.Errorf("a last step of %v: want vanished to be %v", c.last, c.vanished)
		}
	}
	grown := rule{figure: "v", bare: "bare", atMost: 2}
	for _, c := range []struct {
		bare float64
		bad  bool
	}{{1, true}, {0.1, true}, {2.9, false}, {30, false}} {
		if judged(grown, "redis", figures{"v": 10, "bare": 1}, figures{"v": 50, "bare": c.bare}) != c.bad {
			t.Errorf("five times as much, beside %v times as much: want bad to be %v", c.bare, c.bad)
		}
	}
	if !judged(grown, "redis", figures{"v": 10}, figures{"v": 50}) {
		t.Error("without what is beside it, five times as much is let pass")
	}
	coarse := rule{figure: "v", grain: map[string]float64{"zookeeper": 10_000}, atMost: 2}
	if !judged(coarse, "redis", figures{"v": 10}, figures{"v": 150}) || judged(coarse, "zookeeper", figures{"v": 10}, figures{"v": 150}) {
		t.Error("a grain of 100 for one of the middle step counts on another store, or not on its own")
	}
	if !judged(coarse, "zookeeper", figures{"v": 10}, figures{"v": 250}) {
		t.Error("more than twice the grain is let pass")
	}
	if g, _ := (rule{figure: "v", total: true, atMost: 2}).growth(series(linear)); g.exponent < 0.99 || g.exponent > 1.01 {
		t.Errorf("linear growth has the exponent %v", g.exponent)
	}
}

// A subject that does something else at many is judged by what does the same.
func TestUnlikeIsJudgedBesideItsLike(t *testing.T) {
	series := func(subject string, costs ...float64) *Series {
		s := &Series{Name: "keys", Store: "redis", Subject: subject}
		for i, c := range costs {
			s.Points = append(s.Points, Point{10 << i, figures{"v": c}})
		}
		return s
	}
	by := rule{figure: "v", atMost: 3, unlike: map[string]string{"leased": "coord"}}
	like := series("coord", 40, 50, 60)
	for name, c := range map[string]struct {
		leased *Series
		from   float64
		bad    bool
	}{
		"a request where a request is needed":         {series("leased", 0.5, 0.5, 66), 60, false},
		"much more than a request":                    {series("leased", 0.5, 50, 200), 60, true},
		"stopped before, at a request":                {series("leased", 0.5, 66), 50, false},
		"stopped before, at much more than a request": {series("leased", 0.5, 200), 50, true},
		"went on, and to much more than a request":    {series("leased", 0.5, 50, 60, 60, 200), 60, true},
	} {
		r := &Scale{Series: []*Series{like, c.leased}}
		g, ok := r.judge(c.leased, by)
		if !ok || g.bad() != c.bad || g.first != like || g.from != c.from {
			t.Errorf("%s: %v, %+v", name, ok, g)
		}
	}
	if _, ok := new(Scale).judge(series("leased", 1, 2), by); ok {
		t.Error("judged beside what was not measured")
	}
	if g, ok := new(Scale).judge(series("coord", 1, 2, 8), by); !ok || !g.bad() {
		t.Errorf("a series that grows: %+v, %v", g, ok)
	}
}

// Each rule that there is fails where one costs more, and not where it costs as much more as the machine makes of it.
func TestEachRuleFails(t *testing.T) {
	const items, most = 1000, 10_000
	for _, g := range allGrowing() {
		for _, by := range g.rules {
			for _, store := range []string{"redis", "zookeeper", "file"} {
				for _, subject := range g.subjects {
					atMost := cmp.Or(by.atMostOn[store], by.atMost)
					one := 3 * max(by.floor, by.grain[store]/(items-items/10), 1)
					point := func(n int, cost, bare float64) Point {
						if by.total {
							cost *= float64(n)
						}
						if by.rate {
							cost = 1e6 / cost
						}
						return Point{n, figures{by.figure: cost, by.bare: bare}}
					}
					judged := func(times, bare float64) bool {
						of := func(subject string, times float64) *Series {
							return &Series{Name: g.name, Store: store, Subject: subject, Points: []Point{point(items/10, one, 1), point(items, one, 1), point(most, one*times, bare)}}
						}
						s := of(subject, times)
						found, ok := (&Scale{Series: []*Series{of("coord", 1), s}}).judge(s, by)
						if !ok {
							t.Errorf("%s on %s, %s: %s is not judged", g.name, store, subject, by.what)
						}
						return found.bad()
					}
					room := atMost * 1.05
					if !judged(room, 1) || judged(atMost*0.95, 1) {
						t.Errorf("%s on %s, %s: %s may cost another than %v ×", g.name, store, subject, by.what, atMost)
					}
					if by.bare != "" && (!judged(2*room, 2) || judged(room, 2)) {
						t.Errorf("%s on %s, %s: %s may cost another than %v × beyond the machine's 2 ×", g.name, store, subject, by.what, atMost)
					}
				}
			}
		}
	}
}

// In the process, the cost of all grows no faster than their number. From a thousand to ten thousand,
// what is quadratic grows tenfold for each; times get some room, and as a machine that does other work
// disturbs now this and now that, each has several attempts.
func TestGrowthInMemory(t *testing.T) {
	const attempts, room = 4, 8
	size := scaleSizes["tiny"]
	size.items, size.waiters = []int{100, 1000, 10_000}, []int{100, 1000, 10_000}
	s := scalerOf(t, `^(held|waiters|keys)/memory/`, size, "memory")
	best := make(map[string]growth)
	for range attempts {
		r := s.measure(t.Context())
		if len(r.Series) != 4 {
			t.Fatalf("%d series", len(r.Series))
		}
		for _, one := range r.Series {
			if one.Failed != "" {
				t.Errorf("%s, %s: %s", one.Name, one.Subject, one.Failed)
			}
		}
		bad := false
		for _, g := range r.growths() {
			if g.timed {
				g.atMost = room
			}
			name := g.series.Name + ", " + g.series.Subject + ", " + g.what
			if b, ok := best[name]; !ok || g.times < b.times {
				best[name] = g
			}
			bad = bad || best[name].bad()
		}
		if !bad || t.Failed() {
			return
		}
	}
	for name, g := range best {
		if g.bad() {
			t.Errorf("%s: %.3g × as much for each of ten times as many, in the best of %d attempts", name, g.times, attempts)
		}
	}
}

// Every series gives its figures, on a store with processes too, and a page is made of them.
func TestScaleSmoke(t *testing.T) {
	s := scalerOf(t, "", scaleSizes["tiny"], "redis", "file")
	s.out = filepath.Join(t.TempDir(), "scaling.json")
	r := s.measure(t.Context())
	for _, series := range r.Series {
		name := series.Name + " " + series.title()
		if series.Failed != "" || len(series.Points) != 3 {
			t.Errorf("%s: %q, %d points", name, series.Failed, len(series.Points))
			continue
		}
		g := growingNamed(series.Name)
		if v := series.last().Figures[g.chief]; v < 0 || v == 0 && g.chief != "client_B" && g.chief != "store_B" {
			t.Errorf("%s: %s is %v", name, g.chief, v)
		}
		wantSound(t, name, series)
	}
	if err := r.write(s.out); err != nil {
		t.Fatal(err)
	}
	again, err := readScale(s.out)
	if err != nil || !bytes.Equal(scaleSection(again), scaleSection(r)) {
		t.Errorf("the page is another once the results were written and read: %v", err)
	}
	wantXML(t, scalePlots(again))
}

// wantSound wants no lock to be lost, or held by two.
func wantSound(t *testing.T, name string, s *Series) {
	t.Helper()
	for _, p := range s.Points {
		if p.Figures["lost"] != 0 || p.Figures["overlaps"] != 0 {
			t.Errorf("%s at %d: %v lost, %v overlaps", name, p.N, p.Figures["lost"], p.Figures["overlaps"])
		}
	}
}

func TestKeepScale(t *testing.T) {
	old := &Scale{Stores: map[string]string{"redis": "7"}, Series: []*Series{{Name: "held", Store: "redis", Took: 1}, {Name: "keys", Store: "redis", Took: 2}}}
	r := &Scale{Stores: map[string]string{}, Series: []*Series{{Name: "keys", Store: "redis", Took: 3}, {Name: "keys", Store: "etcd", Took: 4}}}
	r.keep(old)
	var took []float64
	for _, s := range r.Series {
		took = append(took, s.Took)
	}
	if !slices.Equal(took, []float64{1, 3, 4}) || r.Stores["redis"] != "7" {
		t.Errorf("kept %v, %v", took, r.Stores)
	}
}

func TestParseScale(t *testing.T) {
	for _, bad := range [][]string{{"-mode", "slow"}, {"-run", "("}, {"more"}, {"-no"}} {
		if _, err := parseScale(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if s, err := parseScale(nil); err != nil || s.mode != "full" || len(s.stores) != len(scaleStores) {
		t.Errorf("%+v, %v", s, err)
	}
	old := filepath.Join(t.TempDir(), "old.json")
	if err := os.WriteFile(old, []byte(`{"schema": 0}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readScale(old); err == nil {
		t.Error("results of another schema were read")
	}
}
