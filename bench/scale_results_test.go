package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The results that are checked in are of everything, nothing was lost, and no cost grows faster
// than linearly.
func TestCheckedInGrowth(t *testing.T) {
	r, err := readScale("results/scaling.json")
	if err != nil {
		t.Fatal(err)
	}
	if r.Mode != "full" {
		t.Errorf("they are of mode %s: run make bench-scale", r.Mode)
	}
	for _, g := range allGrowing() {
		for _, store := range scaleStores {
			for _, subject := range g.subjects {
				if g.takes(store) && claimed(store, subject) && r.of(g.name, store, subject) == nil {
					t.Errorf("%s was not measured on %s, %s", g.name, store, subject)
				}
			}
		}
	}
	for _, s := range r.Series {
		if s.Failed != "" {
			t.Errorf("%s on %s: %s", s.Name, s.title(), s.Failed)
		}
		wantSound(t, s.Name+" "+s.title(), s)
		for _, by := range growingNamed(s.Name).rules {
			if by.vanished(s) {
				t.Errorf("%s on %s: %s is known at %d, and not at %d", s.Name, s.title(), by.what, s.middle().N, s.last().N)
			}
		}
	}
	for _, g := range r.growths() {
		if g.bad() && r.tells(g) {
			t.Errorf("%s on %s: %s: %.3g at %d (%s), %.3g at %d: %.3g ×, beside what costs %.3g × by itself", g.series.Name, g.series.title(), g.what,
				g.from, g.base.N, g.first.title(), g.to, g.series.last().N, g.times, g.shared)
		}
	}
}

// The page is what the results say.
func TestScalingPageIsOfItsResults(t *testing.T) {
	const again = "run go run . scale -only-page -docs ../docs/generated in bench"
	r, err := readScale("results/scaling.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(docs, scalingPage.name))
	if err != nil {
		t.Fatal(err)
	}
	if want, err := scalingPage.spliced(text, scaleSection(r)); err != nil || !bytes.Equal(text, want) {
		t.Errorf("%s is not what the results say (%v): %s", scalingPage.name, err, again)
	}
	wantPlots(t, scalingPage, scalePlots(r), again)
}
