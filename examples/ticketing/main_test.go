package main

import (
	"testing"

	"github.com/coordgo/coord/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestNoTicketIsSoldTwice(t *testing.T) {
	exampletest.Kept(t, "\n20 tickets sold, 0 of them more than once")
}

func TestWithoutTheLockTicketsAreSoldTwice(t *testing.T) { exampletest.Broken(t, "--without-lock") }

func TestAudit(t *testing.T) {
	for _, tt := range []struct {
		name   string
		sales  []sale
		twice  int
		rising bool
	}{
		{"none", nil, 0, true},
		{"good, heard out of order", []sale{{2, 20}, {3, 10}, {1, 30}}, 0, true},
		{"one three times", []sale{{3, 5}, {2, 10}, {2, 20}, {2, 30}}, 1, true},
		{"a token falls", []sale{{3, 10}, {2, 30}, {1, 20}}, 0, false},
	} {
		if twice, rising := audit(tt.sales); twice != tt.twice || rising != tt.rising {
			t.Errorf("%s: %d, %v: want %d, %v", tt.name, twice, rising, tt.twice, tt.rising)
		}
	}
}
