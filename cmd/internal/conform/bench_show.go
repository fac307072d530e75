package conform

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/coordgo/coord/cmd/internal/cli"
	"github.com/coordgo/coord/internal/bench"
)

// benchScreen reports a run while it goes on.
type benchScreen struct {
	a     *cli.App
	each  time.Duration
	live  bool
	began chan struct{} // closed when what is measured has ended
	ended chan struct{} // closed when nothing is drawn any more
}

func newBenchScreen(a *cli.App, b *benchRun, r *benchReport) *benchScreen {
	name := b.cfg.URL.String()
	if r.Store == "memory" {
		name = "memory://"
	}
	if r.Server != "" {
		name += " (" + r.Server + ")"
	}
	a.Printf("coord-conform bench on %s, %d CPUs, %v each. The keys begin with %s\n\n", name, runtime.NumCPU(), b.flags.forEach, b.prefix)
	return &benchScreen{a: a, each: b.flags.forEach, live: a.OnTerminal()}
}

// begin shows on a terminal what is being measured, and for how long.
func (s *benchScreen) begin(t benchTask) {
	if !s.live {
		return
	}
	s.began, s.ended = make(chan struct{}), make(chan struct{})
	start := time.Now()
	go func() {
		defer close(s.ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			took := time.Since(start)
			filled := min(int(20*took/(s.each+1)), 20)
			s.a.Printf("\r%-15s %s%s %4.1fs  %s"+cli.LineRest, t.name, strings.Repeat("█", filled), strings.Repeat("░", 20-filled), took.Seconds(), t.about)
			select {
			case <-tick.C:
			case <-s.began:
				return
			}
		}
	}()
}

// clear removes what begin shows.
func (s *benchScreen) clear() {
	if s.live {
		close(s.began)
		<-s.ended
		s.a.Printf("\r" + cli.LineRest)
	}
}

// end tells what was found.
func (s *benchScreen) end(r benchResult) {
	s.clear()
	s.a.Printf("%-15s %s\n%-15s   %s\n", r.Name, r.About, "", r.text())
}

// text is the figures in a line.
func (r *benchResult) text() string {
	if r.Failed != "" {
		return "failed: " + r.Failed
	}
	var parts []string
	add := func(format string, v *float64) {
		if v != nil {
			parts = append(parts, fmt.Sprintf(format, bench.Figure(*v)))
		}
	}
	took := func(what string, us *float64) {
		if us != nil {
			parts = append(parts, what+" "+microsText(*us))
		}
	}
	add("%s/s", r.PerSecond)
	took("p50", r.P50US)
	took("p99", r.P99US)
	add("fairness %s", r.Fairness)
	add("%s owner changes/s", r.Changes)
	add("%s calls/s while waiting", r.WaitingCalls)
	if r.DrainMS != nil {
		took("all served in", some(*r.DrainMS*1000))
	}
	add("%s calls each", r.Calls)
	add("%s allocations", r.Allocs)
	if r.Overlaps != nil && *r.Overlaps > 0 {
		parts = append(parts, fmt.Sprintf("TWO HELD ONE LOCK, %d times", *r.Overlaps))
	}
	return strings.Join(parts, "  ")
}

// microsText is a time in the unit that fits.
func microsText(us float64) string {
	switch {
	case us < 1:
		return bench.Figure(us*1000) + "ns"
	case us < 1000:
		return bench.Figure(us) + "µs"
	case us < 1_000_000:
		return bench.Figure(us/1000) + "ms"
	}
	return bench.Figure(us/1_000_000) + "s"
}

// write writes the figures, if the flags ask for them.
func (r *benchReport) write(path string) error {
	if path == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	return nil
}
