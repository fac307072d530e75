package soak

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/coordgo/coord/conformance"
)

// Report is the result of a soak, as it is checked in.
type Report struct {
	Suite   string                  `json:"suite"` // its version
	Started time.Time               `json:"started"`
	Took    time.Duration           `json:"took_ns"`
	Env     conformance.Environment `json:"environment"`
	Stores  []Result                `json:"stores"`
}

// Result is what came of one store.
type Result struct {
	Store  string `json:"store"`
	Server string `json:"server,omitempty"`
	// Passes of the suite, and how many of its cases each judged. Passed are the cases that passed, of
	// all passes.
	Passes      int           `json:"passes"`
	Cases       int           `json:"cases"`
	Passed      int           `json:"passed"`
	Unsupported int           `json:"unsupported"`
	Unproven    int           `json:"unproven"`
	Took        time.Duration `json:"took_ns"`
	Longest     time.Duration `json:"longest_pass_ns"`
	// Starved is the longest time for which the suite's process was not scheduled.
	Starved  time.Duration `json:"starved_ns"`
	Failures []Failure     `json:"failures"`
}

// Failure is a case that failed a driver which keeps the contract.
type Failure struct {
	Pass int    `json:"pass"`
	Case string `json:"case"`
	Seed uint64 `json:"seed,string"`
	Text string `json:"text"`
}

// Write writes the report to a file.
func (r *Report) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Read reads a report, and refuses one that cannot be true.
func Read(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func (r *Report) check() error {
	if r.Suite == "" || r.Started.IsZero() || len(r.Stores) == 0 {
		return fmt.Errorf("not the report of a soak: suite %q, started %v, %d stores", r.Suite, r.Started, len(r.Stores))
	}
	seen := make(map[string]bool)
	for _, s := range r.Stores {
		switch {
		case s.Store == "" || seen[s.Store]:
			return fmt.Errorf("store %q: named twice, or not at all", s.Store)
		case s.Passes < 1 || s.Cases < 1:
			return fmt.Errorf("store %q: %d passes of %d cases: want at least one", s.Store, s.Passes, s.Cases)
		case s.Passed+len(s.Failures) > s.Passes*s.Cases:
			return fmt.Errorf("store %q: %d passed and %d failed, of %d passes of %d cases", s.Store, s.Passed, len(s.Failures), s.Passes, s.Cases)
		}
		seen[s.Store] = true
	}
	return nil
}
