package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/coordgo/coord/conformance/internal/report"
)

// Command runs the suite as a program does: it shows what goes on, tells failures as they
// come, judges, and writes reports.
type Command struct {
	Suite Suite
	// Reports are the files to write, each as the ending of its name says; see [WriteFile].
	Reports []string
	// Verbose tells every case, not only those that failed.
	Verbose bool
	// Out is told what goes on: every ten seconds a line says how far the run is.
	Out io.Writer
}

// Run runs the suite. The error is about the harness, the files or Out, never about a case: for
// those, look at [Report.Failed]. When ctx ends, the report is of what had ended by then, and the error
// is ctx's cause.
func (c *Command) Run(ctx context.Context) (*Report, error) {
	for _, path := range c.Reports {
		if err := CheckFile(path); err != nil {
			return nil, err
		}
	}
	s := c.Suite
	for s.Seed == 0 {
		s.Seed = rand.Uint64() // here, so that each failure can name it
	}
	s.Alone = strings.ReplaceAll(s.Alone, "{seed}", fmt.Sprint(s.Seed))
	show := report.StartProgress(c.Out, len(s.selected()))
	started, finished := s.Started, s.Finished
	s.Started = func(cs Case) {
		show.Started(cs.ID)
		if started != nil {
			started(cs)
		}
	}
	s.Finished = func(r Result) {
		show.Finished(r.ID, c.ended(&s, r))
		if finished != nil {
			finished(r)
		}
	}
	r, err := s.Run(ctx)
	show.End()
	if r == nil {
		return nil, err
	}
	c.conclude(show, r)
	err = errors.Join(err, show.Err())
	for _, path := range c.Reports {
		err = errors.Join(err, WriteFile(path, r))
	}
	return r, err
}

// ended is what the progress shows of a result.
func (c *Command) ended(s *Suite, r Result) report.Ended {
	e := report.Ended{Passed: r.Outcome == Pass, Failed: r.Outcome == Fail || r.Outcome == Deviates}
	switch {
	case e.Failed:
		e.Text = fmt.Sprintf("%-11s %s\n%s\n", r.Outcome, r.FullName(), s.Explain(r))
	case c.Verbose && r.Reason != "":
		e.Text = fmt.Sprintf("%-11s %s: %s\n", r.Outcome, r.FullName(), r.Reason)
	case c.Verbose:
		e.Text = fmt.Sprintf("%-11s %s %v\n", r.Outcome, r.FullName(), r.Took.Round(time.Millisecond))
	}
	return e
}

// conclude tells what came of it all, the deviations first.
func (c *Command) conclude(show *report.Progress, r *Report) {
	for _, d := range r.Summary.Deviations {
		switch {
		case d.Stale:
			show.Printf("FAIL a deviation from %s is declared (%s), but its cases pass: remove it\n", d.what(), d.Reason)
		case len(d.Failed) > 0:
			show.Printf("deviation from %s: %s (%s)\n", d.what(), d.Reason, report.Join(d.Failed))
		}
	}
	show.Printf("%s\n", r.Line())
	if list := r.Summary.Unclaimed; len(list) > 0 {
		show.Printf("works, but is not claimed: %s\n", report.Join(list))
	}
	if n := leftOutBy(r); n > 0 {
		show.Printf("%d cases were left out by the fast pass\n", n)
	}
}

func leftOutBy(r *Report) int {
	n := 0
	for i := range r.Results {
		if r.Results[i].Reason == leftOut {
			n++
		}
	}
	return n
}
