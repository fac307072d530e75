package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

// door is a lock that lets everybody in.
type door struct{}

func openDoor(context.Context, *store, time.Duration) (availLock, error) { return door{}, nil }

func (door) lock(context.Context, string) (availHeld, error) { return door{}, nil }
func (door) err() error                                      { return nil }
func (door) unlock(context.Context) error                    { return nil }

// Each seed has one plan, in order, with every kind of fault.
func TestFaultPlan(t *testing.T) {
	plan := faultPlan(1, 40*time.Second, time.Second)
	if !slices.Equal(plan, faultPlan(1, 40*time.Second, time.Second)) || slices.Equal(plan, faultPlan(2, 40*time.Second, time.Second)) {
		t.Error("a seed is not the same plan each time, or two seeds are one")
	}
	var kills, stops, freezes int
	for i, f := range plan {
		if i > 0 && f.At < plan[i-1].At {
			t.Errorf("fault %d comes at %v, after one at %v", i, f.At, plan[i-1].At)
		}
		switch {
		case f.Kill:
			kills++
		case f.Worker == storeFault:
			stops++
		default:
			freezes++
		}
	}
	if kills != 9 || stops != 4 || freezes < 16 {
		t.Errorf("%d kills, %d stops of the store, %d of processes", kills, stops, freezes)
	}
}

// The figures of a run are those of its holds: a lost hold ends where its process was frozen, and a
// frozen holder is not alive.
func TestAvailFigures(t *testing.T) {
	const s = time.Second
	a, b := &availProcess{place: 0}, &availProcess{place: 1}
	b.frozen = []span{{3 * s, 6 * s}}
	lost := heldSpan{span{2 * s, 6 * s}, b, true}
	for _, test := range []struct {
		name            string
		holds           []heldSpan
		share, overlaps float64
		max             float64
	}{
		{"nobody", nil, 0, 0, 10000},
		{"two in turn", []heldSpan{{span{0, 5 * s}, a, false}, {span{5 * s, 10 * s}, a, false}}, 1, 0, 0},
		{"lost, and granted to another meanwhile", []heldSpan{lost, {span{4 * s, 5 * s}, a, false}}, 0.2, 0, 5000},
		{"lost, and frozen as it was granted", []heldSpan{{span{3 * s, 6 * s}, b, true}, {span{4 * s, 5 * s}, a, false}}, 0.1, 0, 5000},
		{"lost, and granted as it was to be frozen", []heldSpan{{span{3*s + 1, 6 * s}, b, true}, {span{4 * s, 5 * s}, a, false}}, 0.1, 0, 5000},
		{"believed in while another holds", []heldSpan{{span{2 * s, 7 * s}, b, false}, {span{4 * s, 5 * s}, a, false}}, 0.3, 1, 3000},
	} {
		r := &availRun{took: 10 * s, holds: test.holds}
		f := r.figures()
		if f["held_share"] != test.share || f["overlaps"] != test.overlaps || f["idle_max_ms"] != test.max {
			t.Errorf("%s: %v", test.name, f)
		}
	}
}

// A run under faults counts the grants of coord, and finds that a lock which is none overlaps.
func TestAvailability(t *testing.T) {
	st, err := openStore(t, "redis")
	if err != nil {
		t.Fatal(err)
	}
	for name, overlaps := range map[string]bool{"coord": false, "open door": true} {
		sub, _ := availSubjectNamed("redis", name)
		f, err := availability(t.Context(), sub, st, "k-"+name[:1], 5*time.Second, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(name, f)
		if f["grants"] == 0 || f["overlaps"] > 0 != overlaps {
			t.Errorf("%s: %v", name, f)
		}
	}
}

// The page has a row for each subject, and coord's stands out.
func TestAvailSection(t *testing.T) {
	r := &Results{Rows: []Row{
		{Store: "redis", Subject: "coord", Kind: bench.Ours, About: "1s"},
		{Store: "redis", Subject: "redislock, 20 ms", Kind: bench.Peer, About: "1s"},
	}}
	text := string(availSection(r))
	for _, want := range []string{"| redis | **coord** | 1s |", "| redis | redislock, 20 ms | 1s |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
