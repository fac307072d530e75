package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"
)

// Command runs the suite as a program does: it shows what goes on, tells failures as they
// come, judges, and writes reports.
type Command struct {
	Suite Suite
	// Reports are the files to write, each as the ending of its name says; see [WriteFile].
	Reports []string
	// Verbose tells every case, not only those that failed.
	Verbose bool
	Out     io.Writer
	// Live is true if Out is a terminal: its last line then shows what runs. Elsewhere
	// a line tells every ten seconds how far the run is.
	Live bool
}

// Run runs the suite. The error is about the harness, the files or Out, never about a case: for
// those, look at [Report.Failed] and [Command.Unmet]. When ctx ends, the report is of what had ended by then, and the error
// is ctx's cause.
func (c *Command) Run(ctx context.Context) (*Report, error) {
	for _, path := range c.Reports {
		if err := CheckFile(path, 1); err != nil {
			return nil, err
		}
	}
	s := c.Suite
	for s.Seed == 0 {
		s.Seed = rand.Uint64() // here, so that each failure can name it
	}
	s.Alone = strings.ReplaceAll(s.Alone, "{seed}", fmt.Sprint(s.Seed))
	show := startProgress(c, &s)
	started, finished := s.Started, s.Finished
	s.Started = func(cs Case) {
		show.started(cs)
		if started != nil {
			started(cs)
		}
	}
	s.Finished = func(r Result) {
		show.finished(&s, r)
		if finished != nil {
			finished(r)
		}
	}
	report, err := s.Run(ctx)
	show.end()
	if report == nil {
		return nil, err
	}
	c.conclude(show, report)
	err = errors.Join(err, show.unwritten)
	for _, path := range c.Reports {
		err = errors.Join(err, WriteFile(path, report))
	}
	return report, err
}

// conclude tells what came of it all, the deviations first.
func (c *Command) conclude(show *progress, r *Report) {
	for _, d := range r.Summary.Deviations {
		switch {
		case d.Stale:
			show.printf("FAIL a deviation from %s is declared (%s), but its cases pass: remove it\n", d.what(), d.Reason)
		case len(d.Failed) > 0:
			show.printf("deviation from %s: %s (%s)\n", d.what(), d.Reason, join(d.Failed))
		}
	}
	show.printf("%s\n", r.Line())
	for _, f := range r.Summary.Figures {
		show.printf("%s: %s\n", f.Name, f.Value)
	}
	if !r.Selection.Partial || r.Selection.Profile != "" {
		for _, v := range r.Summary.Profiles {
			show.printf("%s\n", v)
		}
	}
	if list := r.Summary.Unclaimed; len(list) > 0 {
		show.printf("works, but is not claimed: %s\n", join(list))
	}
	if n := leftOutBy(r); n > 0 {
		show.printf("%d cases were left out by the fast pass\n", n)
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

// Unmet reports whether the run was about a profile that the store does not meet.
func (c *Command) Unmet(r *Report) bool {
	if c.Suite.Profile == "" {
		return false
	}
	v, err := r.Profile(c.Suite.Profile)
	return err != nil || v.Judgement == MeetsNot
}

// every is how often a run that no terminal shows tells how far it is.
const every = 10 * time.Second
