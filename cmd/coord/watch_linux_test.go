package main_test

import (
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"
)

// see waits until it has shown each of these, one after the other.
func (r *running) see(what ...string) {
	r.t.Helper()
	var shown []string
	late := time.After(30 * time.Second)
	for len(what) > 0 {
		select {
		case line, ok := <-r.lines:
			if !ok {
				r.t.Fatalf("it has ended; it showed %q", shown)
			}
			shown = append(shown, line)
			if strings.Contains(line, what[0]) {
				what = what[1:]
			}
		case <-late:
			r.t.Fatalf("it did not show %q, but %q", what[0], shown)
		}
	}
}

// On a terminal the table is drawn again and again, until Ctrl-C; then what was there before
// comes back, and the last table stays.
func TestWatchTerminal(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.env = append(u.env, "NO_COLOR=1")
	r, keys := u.onTerminal("watch", "a", "--limit", "l=5/1h", "--interval", "50ms")
	r.see("\x1b[?1049h", "LOCK  STATE", "a     free", "LIMIT  LEFT  OF", "l      5     5/1h", "\x1b[H", "a     free")
	u.run("limit", "l", "--rate", "5/1h").want(t, 0, "", "")
	r.see("l      4     5/1h")
	if _, err := io.WriteString(keys, "\x03"); err != nil {
		t.Fatal(err)
	}
	r.see("\x1b[?1049l", "l      4     5/1h")
	if code := exitCode(t, r.cmd.Wait()); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
}

// sequences are those that move the cursor or colour.
var sequences = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// The table fits the terminal, has titles, and colours unless they are not wanted.
func TestWatchFitsTheTerminal(t *testing.T) {
	t.Parallel()
	const long = "orders/2026-11-23/warehouse-north/pick-list"
	for _, tt := range []struct {
		name      string
		columns   int
		env       []string
		titles    []string
		no        string
		holds     string
		colourful bool
	}{
		{"60 columns", 60, nil, []string{"LOCK", "STATE", "HOLDER", "LEASE", "WAITING"}, "TOKEN", "orders/", true},
		{"120 columns", 120, nil, []string{"LOCK", "STATE", "HOLDER", "LEASE", "WAITING", "TOKEN"}, "…", long, true},
		{"without colour", 120, []string{"NO_COLOR=1"}, []string{"TOKEN"}, "\x1b[3", long, false},
		{"20 columns", 20, nil, []string{"LOCK", "STATE"}, "TOKEN", "orders/", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := newUser(t, "")
			u.env = append(u.env, tt.env...)
			u.acquire(long, "10m")
			r, keys := u.onTerminalOf(uint16(tt.columns), 24, "watch", long, "free", "漢字", "--limit", "supplier=2000/1m", "--interval", "50ms")
			// Two frames, so that one is whole.
			var shown []string
			late := time.After(30 * time.Second)
			for frames := 0; frames < 2; {
				select {
				case line := <-r.lines:
					if strings.Contains(line, "\x1b[H") {
						frames++
					}
					shown = append(shown, line)
				case <-late:
					t.Fatalf("it showed %q", shown)
				}
			}
			if _, err := io.WriteString(keys, "\x03"); err != nil {
				t.Fatal(err)
			}
			for range r.lines { // to its end
			}
			if code := exitCode(t, r.cmd.Wait()); code != 0 {
				t.Errorf("exit status %d", code)
			}
			all := strings.Join(shown, "\n")
			for _, want := range append(tt.titles, tt.holds, "LIMIT", "supplier", "漢字") {
				if !strings.Contains(all, want) {
					t.Errorf("it does not show %q:\n%s", want, all)
				}
			}
			if strings.Contains(all, tt.no) {
				t.Errorf("it shows %q:\n%s", tt.no, all)
			}
			if got := strings.Contains(all, "\x1b[32m"); got != tt.colourful {
				t.Errorf("in colour: %v, want %v:\n%s", got, tt.colourful, all)
			}
			for _, line := range shown {
				if line = sequences.ReplaceAllString(line, ""); runewidth.StringWidth(line) > tt.columns {
					t.Errorf("a line of %d columns: %q", runewidth.StringWidth(line), line)
				}
			}
		})
	}
}

// What does not fit the height is counted.
func TestWatchFitsTheHeight(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.env = append(u.env, "NO_COLOR=1")
	r, keys := u.onTerminalOf(80, 8, "watch", "a", "b", "c", "d", "e", "f", "--interval", "50ms")
	r.see("a     free", "… 3 more lines")
	if _, err := io.WriteString(keys, "\x03"); err != nil {
		t.Fatal(err)
	}
	r.see("\x1b[?1049l", "f     free") // the last table is whole
	if code := exitCode(t, r.cmd.Wait()); code != 0 {
		t.Errorf("exit status %d", code)
	}
}
