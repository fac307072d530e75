package main

import (
	"testing"

	"github.com/coordgo/coord/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestEveryTickRunsOnce(t *testing.T) {
	exampletest.Kept(t, "\n3 ticks with one run, 0 with more, 0 with none", "--ticks", "3")
}

func TestWithoutTheLockEveryMachineRuns(t *testing.T) {
	exampletest.Broken(t, "--without-lock", "--ticks", "3")
}

func TestWithoutMinHoldLateMachinesRunAgain(t *testing.T) {
	exampletest.Broken(t, "--without-min-hold", "--ticks", "3")
}
