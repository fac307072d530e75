package main

import (
	"context"

	"github.com/coordgo/coord/internal/bench"
)

// workload is one use, at which subjects are compared.
type workload struct {
	name, title string
	about       string // Markdown, for the page
	takes       func(subject) bool
	measure     func(context.Context, *measurement) (figures, error)
	chief       string // the figure that is drawn and divided
	lower       bool   // less of it is better
	base        string // the subject that others are divided by; "" is the bare commands
	noRatio     bool
	axis        string // the chief figure's unit
	columns     []column
	share       float64 // of the time of others; 0 is all of it
	halfRounds  bool
}

// column is a figure in a table.
type column struct{ figure, title string }

func workloads() []*workload {
	return append(lockWorkloads(), limitWorkloads()...)
}

// isBase reports whether others are compared with this subject.
func (w *workload) isBase(subject string, kind bench.BarKind) bool {
	if w.base != "" {
		return subject == w.base
	}
	return kind == bench.Floor
}

// ratioTitle is of the column that compares.
func (w *workload) ratioTitle() string {
	if w.base != "" {
		return "× " + w.base
	}
	return "× bare"
}

func workloadNamed(name string) *workload {
	for _, w := range append(workloads(), sharedWorkloads()...) {
		if w.name == name {
			return w
		}
	}
	return nil
}

// locksWithoutWait takes locks for a use where nobody waits, locksThatWait for one where somebody does.
func locksWithoutWait(s subject) bool {
	return s.locks != nil && s.uses != contended && s.store != "memory"
}

func locksThatWait(s subject) bool {
	return s.locks != nil && s.uses != uncontended
}

func sharedLocksThatWait(s subject) bool { return locksThatWait(s) && s.store != "memory" }

func limitsOfServers(s subject) bool { return s.limits != nil && s.store != "memory" }

func limitsInMemory(s subject) bool { return s.limits != nil && s.store == "memory" }

// limitsThatPromise are those that mean to be exact: of coord's on other stores than Redis the
// strict ones are enough, for the arithmetic is the same.
func limitsThatPromise(s subject) bool {
	return limitsOfServers(s) && s.kind != bench.Floor && (s.store == "redis" || s.name == "coord, sliding window" || s.name == "coord, leased permits")
}
