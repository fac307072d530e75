package demo

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What the demonstration calls kept would be called broken if it were.
func TestAudit(t *testing.T) {
	sale := func(ticket int, token coord.Token) event { return event{Kind: sold, Ticket: ticket, Token: token} }
	for _, tt := range []struct {
		name   string
		sales  []event
		twice  int
		rising bool
	}{
		{"none", nil, 0, true},
		{"good, heard out of order", []event{sale(2, 20), sale(3, 10), sale(1, 30)}, 0, true},
		{"one twice", []event{sale(2, 10), sale(2, 20), sale(1, 30)}, 1, true},
		{"one three times", []event{sale(2, 10), sale(2, 20), sale(2, 30)}, 1, true},
		{"a token twice", []event{sale(2, 10), sale(1, 10)}, 0, false},
		{"a token falls", []event{sale(3, 10), sale(2, 30), sale(1, 20)}, 0, false},
	} {
		if twice, rising := audit(tt.sales); twice != tt.twice || rising != tt.rising {
			t.Errorf("%s: audit = %d, %v, want %d, %v", tt.name, twice, rising, tt.twice, tt.rising)
		}
	}
}

func TestBusiest(t *testing.T) {
	at := func(ms ...int64) (takes []take) {
		for i := 0; i < len(ms); i += 2 {
			takes = append(takes, take{ms[i] * 1e6, ms[i+1] * 1e6})
		}
		return takes
	}
	for _, tt := range []struct {
		name        string
		takes       []take
		first, most int
	}{
		{"none", nil, 0, 0},
		{"one", at(5, 6), 1, 1},
		{"next second", at(0, 1, 1000, 1001), 1, 1},
		{"a later second is fuller", at(0, 1, 900, 901, 1100, 1101, 1200, 1201), 2, 3},
		{"heard out of order", at(1200, 1201, 0, 1, 1100, 1101, 900, 901), 2, 3},
		{"answered after the end: it may have been granted there", at(0, 1, 999, 1001), 1, 1},
	} {
		if first, most := busiest(tt.takes, time.Second); first != tt.first || most != tt.most {
			t.Errorf("%s: busiest = %d, %d, want %d, %d", tt.name, first, most, tt.first, tt.most)
		}
	}
}

func TestPrinterCountsBroken(t *testing.T) {
	var out bytes.Buffer
	p := &printer{out: &out}
	p.check(true, "this")
	p.check(false, "that")
	if p.broken != 1 || !strings.Contains(out.String(), "BROKEN\n") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("broken = %d after:\n%s", p.broken, out.String())
	}
	s := &stage{printer: *p, url: "file:///x"}
	if err := s.conclude(time.Second); !errors.Is(err, ErrBroken) {
		t.Errorf("conclude = %v, want ErrBroken", err)
	}
}

// A memory store is one process's own: refused before anything starts.
func TestRunRefusesMemory(t *testing.T) {
	var out bytes.Buffer
	for _, url := range []string{"memory://", "memory://name"} {
		if err := Run(t.Context(), Options{URL: url, Out: &out}); !errors.Is(err, coord.ErrInvalid) || out.Len() > 0 {
			t.Errorf("%s: %v, and it wrote %q", url, err, out.String())
		}
	}
}
