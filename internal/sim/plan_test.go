package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// plan is what a seed says of a run, before it begins.
type plan struct {
	seed    uint64
	theme   theme
	shape   shape
	clients int
	workers int
	keys    int
	length  time.Duration
	ahead   bool // permits are taken in advance
	faults  faults
}

// theme is what the workers of a run do most. The seed counts through them, so that a few seeds in a row have them all.
type theme uint64

const (
	locks theme = iota
	nested
	shares
	signals
	limits
	mixed
	themes
)

func (t theme) String() string {
	return [...]string{"locks", "nested", "shares", "signals", "limits", "mixed"}[t]
}

// shape is what the store offers beyond the minimum.
type shape struct{ queue, batch, delayed, pushes bool }

// faults are chances: of a call the first ones, of a client in a second the others.
type faults struct {
	lost, slow, mute         float64 // the request or the reply is lost, is late, is never heard of
	pause, lag, die, step    float64
	refuse                   float64 // the store says that it did not apply the call
	longestPause, longestLag time.Duration
	weak                     string // calls of this kind are lost far more often than others
}

// calm reports whether the plan has no faults: then nothing is lost, and nothing fails.
func (p *plan) calm() bool { return p.faults == faults{} }

func (p *plan) String() string {
	return fmt.Sprintf("%v, %d clients of %d workers, %d keys, store %+v, faults %+v", p.theme, p.clients, p.workers, p.keys, p.shape, p.faults)
}

// planOf draws the plan of a seed. One of four is calm. Whether faults are rare or many is drawn for each: mild ones miss
// what harsh ones find, and what harsh ones stop early, mild ones reach.
func planOf(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 0))
	of := func(choices ...float64) float64 { return choices[r.IntN(len(choices))] }
	is := func() bool { return r.IntN(2) == 0 }
	p := &plan{
		seed: seed, theme: theme(seed % uint64(themes)), clients: 3 + r.IntN(4), workers: 2 + r.IntN(2), keys: 1 + r.IntN(4),
		length: 40 * time.Second,
		shape:  shape{queue: is(), batch: is(), delayed: is(), pushes: is()},
	}
	if p.theme == signals {
		p.keys, p.workers = 1, 3
	}
	if seed/uint64(themes)%4 == 0 {
		return p
	}
	p.faults = faults{
		lost: of(0.01, 0.05, 0.2), slow: of(0.01, 0.05, 0.2), mute: of(0, 0.02, 0.1), refuse: of(0, 0.02),
		pause: of(0, 0.1, 0.3), lag: of(0, 0.1, 0.2), die: of(0, 0.02, 0.05), step: of(0, 0.05),
		longestPause: 4 * time.Second, longestLag: time.Second,
	}
	p.ahead = is()
	weak := []string{"trylock", "lock", "renew", "unlock", "enter", "stay", "leave", "holders", "take", "refund", "changed", ""}
	p.faults.weak = weak[r.IntN(len(weak))]
	if p.theme == signals { // who dies with the lock takes it along for the rest of the run
		p.faults.die, p.faults.longestPause = 0, time.Second
		if is() {
			p.faults.weak = "leave"
		}
	}
	return p
}

// names are the keys of the application.
func (p *plan) names() (names []string) {
	for i := range p.keys {
		names = append(names, fmt.Sprint("k", i))
	}
	return names
}
