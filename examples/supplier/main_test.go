package main

import (
	"testing"
	"time"

	"github.com/coordgo/coord/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// An hour's permits are gone at once: however slow the machine is, there are as many calls as are allowed.
func TestNeverAboveTheLimit(t *testing.T) {
	exampletest.Kept(t, "12 processes share", "--rate", "100", "--per", "1h", "--for", "1s", "--load", "36000")
}

func TestEachForItselfIsAbove(t *testing.T) {
	exampletest.Broken(t, "--rate", "10", "--per", "1h", "--for", "1s", "--load", "360000", "--alone")
}

func TestMostWithin(t *testing.T) {
	made := []call{{10, 12}, {20, 31}, {22, 23}, {40, 41}}
	for per, want := range map[time.Duration]int{1: 0, 3: 1, 12: 2, 21: 2, 22: 3, 31: 3, 32: 4, 90: 4} {
		if n := mostWithin(made, per); n != want {
			t.Errorf("in any %d: %d, want %d", per, n, want)
		}
	}
}
