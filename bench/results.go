package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

// schema is the version of Results. It rises when a field changes its meaning.
const schema = 1

// Results are what one run has found.
type Results struct {
	Schema int       `json:"schema"`
	Date   time.Time `json:"date"`
	// Complete: everything was measured, on every store, at the settings of make bench-peers.
	Complete  bool              `json:"complete"`
	Machine   bench.Machine     `json:"machine"`
	LoadAfter float64           `json:"load_average_after"`
	Libraries map[string]string `json:"libraries"`
	Stores    map[string]string `json:"stores"` // with their versions
	Rounds    int               `json:"rounds"`
	ForMS     int64             `json:"for_ms"`
	Run       string            `json:"run,omitempty"`
	Took      float64           `json:"took_s"`
	Rows      []Row             `json:"rows"`
	// Absent are libraries that were to be measured, and why they were not.
	Absent map[string]string `json:"absent,omitempty"`
}

// Row is one subject at one workload.
type Row struct {
	Workload string        `json:"workload"`
	Store    string        `json:"store"`
	Subject  string        `json:"subject"`
	Kind     bench.BarKind `json:"kind"`
	About    string        `json:"about,omitempty"` // how it waits, what its limit promises
	// Figures by name; a name ends with its unit.
	Figures map[string]bench.Spread `json:"figures"`
	// Ratio of the workload's chief figure to that of the bare commands, round by round. Above 1
	// is slower.
	Ratio *bench.Spread `json:"ratio,omitempty"`
	// Rounds are the chief figure of each round, 0 of one that failed.
	Rounds []float64 `json:"rounds"`
	// Failures are rounds that gave no figures.
	Failures []string `json:"failures,omitempty"`
}

func (r *Results) write(path string) error { return writeJSON(path, r) }

// breached is an error if more held a lock of coord at once than may.
func (r *Results) breached() (err error) {
	for _, row := range r.Rows {
		if n := row.Figures["overlaps"].Max; row.Kind == bench.Ours && n > 0 {
			err = errors.Join(err, fmt.Errorf("%s, %s, %s: %v times more held it than may", row.Workload, row.Store, row.Subject, n))
		}
	}
	return err
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

func readResults(path string) (*Results, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(Results)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Schema != schema {
		return nil, fmt.Errorf("%s: schema %d, want %d: run make bench-peers", path, r.Schema, schema)
	}
	return r, nil
}
