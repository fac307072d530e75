package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

// report is what was measured. It is what --json writes.
type report struct {
	Store       string  `json:"store"`
	Server      string  `json:"server"`
	When        string  `json:"when"` // the day
	Go          string  `json:"go"`
	OS          string  `json:"os"`
	Arch        string  `json:"arch"`
	CPUs        int     `json:"cpus"`
	Connections int     `json:"connections"` // to each server
	Requests    int     `json:"requests"`    // in each round
	Rounds      int     `json:"rounds"`
	Held        held    `json:"held"`
	Rate        rated   `json:"rate"`
	Costs       []*cost `json:"costs,omitempty"`
}

// held is what became of a long window.
type held struct {
	Requests int `json:"requests"`
	Bound    int `json:"bound"`
	Admitted int `json:"admitted"`
	Denied   int `json:"denied"`
	Read     int `json:"answers_read"`
}

// rated is what became of a short one.
type rated struct {
	Requests int           `json:"requests"`
	Rate     int           `json:"rate"`
	Per      time.Duration `json:"per_ns"`
	For      time.Duration `json:"for_ns"`
	Admitted int           `json:"admitted"`
	Most     int           `json:"most_in_any_period"`
	Read     int           `json:"answers_read"`
}

func newReport(store driver.Info) *report {
	return &report{
		Store: store.Name, Server: store.Server, When: time.Now().UTC().Format(time.DateOnly), Go: runtime.Version(),
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Connections: *connections, Requests: *requests, Rounds: *rounds,
	}
}

// costs is the table of what requests cost.
func (r *report) costs() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %10s %8s %10s %8s %10s\n", "", "CPU, µs", "× bare", "mean, µs", "× bare", "p99, µs")
	for _, c := range r.Costs {
		fmt.Fprintf(&b, "%-12s %10.1f %8.2f %10.0f %8.2f %10.0f\n", c.Handler, c.CPU, c.TimesCPU, c.Mean, c.TimesMean, c.P99)
	}
	return b.String()
}

// write writes the file, if it has a name.
func (r *report) write(file string) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
