package main

import (
	"strings"
	"testing"

	"github.com/coordgo/coord/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestEveryTickRunsOnce(t *testing.T) {
	exampletest.On(t, exampletest.Stores, func(t *testing.T, url string) {
		said := exampletest.Kept(t, "--url", url, "--ticks", "5")
		if !strings.Contains(said, "\n5 ticks with one run, 0 with more, 0 with none") {
			t.Error("it does not say that every tick had one run")
		}
	})
}

func TestWithoutTheLockEveryMachineRuns(t *testing.T) {
	if said := exampletest.Broken(t, "--without-lock", "--ticks", "3"); !strings.Contains(said, "\n0 ticks with one run, 3 with more") {
		t.Error("not every tick had more than one run")
	}
}

func TestWithoutMinHoldLateMachinesRunAgain(t *testing.T) {
	exampletest.Broken(t, "--without-min-hold")
}

func TestCount(t *testing.T) {
	for _, tt := range []struct {
		ran        string
		once, more int
	}{
		{"A,B,A", 3, 0},
		{"A,,A", 2, 0},
		{"A,BC,AA,", 1, 2},
	} {
		if once, more := count(strings.Split(tt.ran, ",")); once != tt.once || more != tt.more {
			t.Errorf("%s: %d, %d: want %d, %d", tt.ran, once, more, tt.once, tt.more)
		}
	}
}
