package main

import (
	"testing"

	"github.com/coordgo/coord/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestOneLeaderAfterTheOther(t *testing.T) {
	exampletest.Kept(t, "\nnever two at once", "--ttl", "1s")
}

func TestWithoutTheLockThereAreMany(t *testing.T) { exampletest.Broken(t, "--without-lock") }

func TestAudit(t *testing.T) {
	for _, tt := range []struct {
		name     string
		all      []tenure
		overlaps int
		rising   bool
	}{
		{"none", nil, 0, true},
		{"the first is heard last", []tenure{{"B", 2, 21, 30, 0}, {"A", 1, 10, 20, 0}}, 0, true},
		{"one beside two", []tenure{{"A", 1, 10, 50, 0}, {"B", 2, 20, 30, 0}, {"C", 3, 40, 60, 0}}, 2, true},
		{"a token twice", []tenure{{"A", 1, 10, 20, 0}, {"B", 1, 21, 30, 0}}, 0, false},
	} {
		if overlaps, rising := audit(tt.all); overlaps != tt.overlaps || rising != tt.rising {
			t.Errorf("%s: %d, %v: want %d, %v", tt.name, overlaps, rising, tt.overlaps, tt.rising)
		}
	}
}
