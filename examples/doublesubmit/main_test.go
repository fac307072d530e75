package main

import (
	"strings"
	"testing"

	"github.com/coordgo/coord/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestAnOrderIsChargedOnce(t *testing.T) {
	exampletest.On(t, exampletest.Stores, func(t *testing.T, url string) {
		if said := exampletest.Kept(t, "--url", url); !strings.Contains(said, "\n25 charges, 0 orders charged more than once") {
			t.Error("it does not say that all were charged")
		}
	})
}

func TestWithoutTheLockOrdersAreChargedTwice(t *testing.T) {
	exampletest.Broken(t, "--without-lock")
}

func TestAudit(t *testing.T) {
	for _, tt := range []struct {
		ledger         string
		charges, twice int
	}{
		{"", 0, 0},
		{"1 A\n2 B\n", 2, 0},
		{"1 A\n2 B\n1 B\n", 3, 1},
		{"1 A\n1 B\n1 B\n12 A\n", 4, 1},
	} {
		if charges, twice := audit(tt.ledger); charges != tt.charges || twice != tt.twice {
			t.Errorf("%q: %d, %d: want %d, %d", tt.ledger, charges, twice, tt.charges, tt.twice)
		}
	}
}
