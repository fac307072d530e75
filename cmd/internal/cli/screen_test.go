package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/coordgo/coord"
)

// sequences are those that move the cursor or colour.
var sequences = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// The table fits the terminal, has titles, and colours unless they are not wanted.
func TestScreenFitsTheWidth(t *testing.T) {
	const long = "orders/2026-11-23/warehouse-north/pick-list"
	waiters := 2
	sights := []sight{
		lockSight(lockStatus{Name: long, State: stateHeld, Waiters: &waiters, holder: coord.Holder{Name: "vm", PID: 7, Token: 1024, TTL: 10 * time.Minute}}),
		lockSight(lockStatus{Name: "free", State: stateFree}),
		lockSight(lockStatus{Name: "漢字", State: stateFree}),
		limitSight(watchedLimit{"supplier", coord.Per(2000, time.Minute)}, coord.Result{Remaining: 2000}),
	}
	sights[3].kind = "limit"
	for _, tt := range []struct {
		columns int
		colour  bool
		titles  []string
		no      string
		holds   string
	}{
		{60, true, []string{"LOCK", "STATE", "HOLDER", "LEASE", "WAITING"}, "TOKEN", "orders/"},
		{120, true, []string{"LOCK", "STATE", "HOLDER", "LEASE", "WAITING", "TOKEN"}, "…", long},
		{120, false, []string{"TOKEN"}, "\x1b[3", long},
		{20, true, []string{"LOCK", "STATE"}, "TOKEN", "orders/"},
	} {
		t.Run(fmt.Sprintf("%d columns, colour %v", tt.columns, tt.colour), func(t *testing.T) {
			var out strings.Builder
			s := &screen{out: &out, size: func() (int, int) { return tt.columns, 24 }, colour: tt.colour}
			if err := s.show(sights); err != nil {
				t.Fatal(err)
			}
			all := out.String()
			for _, want := range append(tt.titles, tt.holds, "LIMIT", "supplier", "漢字") {
				if !strings.Contains(all, want) {
					t.Errorf("it does not show %q:\n%s", want, all)
				}
			}
			if strings.Contains(all, tt.no) {
				t.Errorf("it shows %q:\n%s", tt.no, all)
			}
			if got := strings.Contains(all, "\x1b[32m"); got != tt.colour {
				t.Errorf("in colour: %v, want %v:\n%s", got, tt.colour, all)
			}
			for line := range strings.Lines(all) {
				line = strings.TrimSuffix(sequences.ReplaceAllString(line, ""), "\n")
				if width := runewidth.StringWidth(line); width > tt.columns {
					t.Errorf("a line of %d columns: %q", width, line)
				}
			}
		})
	}
}

// What does not fit the height is counted. The last table is whole.
func TestScreenFitsTheHeight(t *testing.T) {
	var out strings.Builder
	s := &screen{out: &out, size: func() (int, int) { return 80, 8 }}
	var sights []sight
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		sights = append(sights, lockSight(lockStatus{Name: name, State: stateFree}))
	}
	if err := s.show(sights); err != nil {
		t.Fatal(err)
	}
	if frame := out.String(); !strings.Contains(frame, "… 3 more lines") || strings.Contains(frame, "f     free") || strings.Count(frame, "\n") > 7 {
		t.Errorf("it shows\n%s", frame)
	}
	out.Reset()
	if s.close(); !strings.Contains(out.String(), "f     free") {
		t.Errorf("it leaves\n%s", out.String())
	}
}
