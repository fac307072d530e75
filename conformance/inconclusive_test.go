package conformance

import (
	"strings"
	"testing"
	"time"
)

// A case that could not judge something because this process was not scheduled runs once more. It passes
// if it judges then, and fails if it does not, or if the process was scheduled all the while.
func TestInconclusive(t *testing.T) {
	keys := make(map[string]bool)
	for name, test := range map[string]struct {
		stalls, open int // in how many runs the process stalls, and something is left open
		runs         int
		want         Outcome
		says         string
	}{
		"judges all":               {runs: 1, want: Pass},
		"stalls and judges all":    {stalls: 1, runs: 1, want: Pass},
		"inconclusive once":        {stalls: 1, open: 1, runs: 2, want: Pass},
		"inconclusive twice":       {stalls: 2, open: 2, runs: 2, want: Fail, says: "inconclusive twice"},
		"leaves open without need": {open: 1, runs: 1, want: Fail, says: "never unscheduled"},
		"second time without need": {stalls: 1, open: 2, runs: 2, want: Fail, says: "never unscheduled"},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			res := outcome(t, memoryHarness(), Case{run: func(e *env) {
				real := e.r.pulse
				defer func() { e.r.pulse = real }()
				e.r.pulse = &pulse{} // of a machine that does nothing else
				runs++
				keys[e.key("k")] = true
				if runs <= test.stalls {
					e.r.pulse.gaps = []gap{{time.Now().Add(time.Minute), stall}}
				}
				if runs <= test.open {
					e.notJudged("what run %d saw", runs)
				}
			}})
			text := ""
			for _, m := range res.Messages {
				text += m.Text + "\n"
			}
			if res.Outcome != test.want || runs != test.runs || !strings.Contains(text, test.says) {
				t.Errorf("saw %s after %d runs, saying %q; want %s after %d, saying %q", res.Outcome, runs, text, test.want, test.runs, test.says)
			}
			if again := res.Again != ""; again != (test.runs > 1) {
				t.Errorf("Again: %q", res.Again)
			}
		})
	}
	if len(keys) < 2 {
		t.Errorf("saw the keys %v, want other ones when a case runs again", keys)
	}
}
