package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordgo/coord/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// short is a run that a test has time for: three periods, with more load than they can take.
var short = []string{"--rate", "100", "--per", "1s", "--for", "3s", "--load", "4"}

func TestNeverAboveTheLimit(t *testing.T) {
	exampletest.On(t, exampletest.Stores, func(t *testing.T, url string) {
		dir := t.TempDir()
		svg, figures := filepath.Join(dir, "plot.svg"), filepath.Join(dir, "plot.json")
		exampletest.Kept(t, append(short, "--url", url, "--svg", svg, "--json", figures)...)
		r := read(t, figures)
		if total := sum(r.Counts); r.Most > 100 || r.Most == 0 || total != r.Calls || r.Processes != 12 {
			t.Errorf("%+v: counts add up to %d", r, total)
		}
		wellFormed(t, svg)
	})
}

// In memory, the callers are clients of one process.
func TestClientsOfOneProcess(t *testing.T) {
	figures := filepath.Join(t.TempDir(), "plot.json")
	said := exampletest.Kept(t, append(short, "--url", "memory://", "--json", figures)...)
	if !strings.Contains(said, "12 clients in one process share") {
		t.Errorf("it said %s", said)
	}
	if r := read(t, figures); r.Most > 100 || r.Calls < 200 || !r.InOne || r.Store != "memory" {
		t.Errorf("%+v", r)
	}
}

func TestEachForItselfIsAbove(t *testing.T) {
	exampletest.Broken(t, append(short, "--alone")...)
}

func read(t *testing.T, file string) (r report) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func wellFormed(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := 0
	for dec := xml.NewDecoder(f); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines++
		}
	}
	if lines != 1 {
		t.Errorf("%d lines of sums", lines)
	}
}

func sum(values []int) (total int) {
	for _, v := range values {
		total += v
	}
	return total
}

func TestWithin(t *testing.T) {
	made := []call{{10, 12}, {20, 31}, {22, 23}, {40, 41}}
	for _, tt := range []struct {
		from, to int64
		want     int
	}{
		{0, 10, 0},
		{0, 13, 1},
		{10, 42, 4},
		{10, 31, 2}, // the second may have been admitted after that
		{11, 41, 2}, // and the first before
		{50, 90, 0},
	} {
		if n := within(made, tt.from, tt.to); n != tt.want {
			t.Errorf("from %d to %d: %d, want %d", tt.from, tt.to, n, tt.want)
		}
	}
}

func TestBars(t *testing.T) {
	if got, want := bars([]int{0, 1, 50, 99, 100}, 100), " ▁▄██"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := bars([]int{0, 0}, 0); strings.TrimSpace(got) != "" {
		t.Errorf("nothing is drawn as %q", got)
	}
}

// A limit that lets one more through is found out.
func TestOneTooManyIsSeen(t *testing.T) {
	var made []call
	for i := range int64(11) {
		made = append(made, call{i * 1e6, i*1e6 + 1})
	}
	made = append(made, call{int64(*per) + 1, int64(*per) + 2}) // the next period
	if r := newReport(0, made); r.Most != 11 || r.Calls != 12 {
		t.Errorf("at most %d of %d", r.Most, r.Calls)
	}
}
