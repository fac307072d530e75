package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

// Schema is the version of the JSON form of a [Report]. It grows by fields;
// another number means that a field has changed or gone.
const Schema = 4

// Version is the version of the suite: of what its cases demand. Reports of different
// versions do not compare.
const Version = "1.0"

// Outcome is how a case ended.
type Outcome string

// The outcomes.
const (
	Pass        Outcome = "pass"
	Fail        Outcome = "fail"
	Deviates    Outcome = "deviation" // it failed, as was declared
	Unsupported Outcome = "unsupported"
	Unproven    Outcome = "unproven"
)

// Outcomes lists the outcomes, the weightiest first.
func Outcomes() []Outcome { return []Outcome{Deviates, Fail, Unproven, Unsupported, Pass} }

// Message is one thing that a case said.
type Message struct {
	Failure bool          `json:"failure,omitempty"`
	At      string        `json:"at"`
	After   time.Duration `json:"after_ns"`
	Text    string        `json:"text"`
}

// Result is what came of one case.
type Result struct {
	Case
	Outcome Outcome `json:"outcome"`
	// Reason of an outcome that is neither pass nor fail.
	Reason string `json:"reason,omitempty"`
	// Unclaimed is a capability that works although it is not claimed.
	Unclaimed driver.Claim  `json:"unclaimed,omitempty"`
	Messages  []Message     `json:"messages,omitempty"`
	Took      time.Duration `json:"took_ns"`
}

// Report is the result of a run.
type Report struct {
	Schema    int           `json:"schema"`
	Suite     string        `json:"suite"`
	Seed      uint64        `json:"seed,string"`
	Run       string        `json:"run"` // part of every key of the run
	Started   time.Time     `json:"started"`
	Took      time.Duration `json:"took_ns"`
	Selection Selection     `json:"selection"`
	Store     Store         `json:"store"`
	Summary   Summary       `json:"summary"`
	Results   []Result      `json:"cases"`
}

// Selection is which cases ran.
type Selection struct {
	Fast bool `json:"fast,omitempty"`
	// Partial is true if cases of the suite are not in the report.
	Partial bool `json:"partial,omitempty"`
	// Stopped is true if the run was ended before its time: it says nothing of the cases that are missing.
	Stopped bool `json:"stopped,omitempty"`
}

// Store is what was tested.
type Store struct {
	Name    string        `json:"name"`
	Server  string        `json:"server,omitempty"`
	Claims  driver.Claims `json:"claims"`
	Locks   bool          `json:"locks"`
	Limits  bool          `json:"limits"`
	MinTTL  time.Duration `json:"min_ttl_ns,omitempty"`
	TTLStep time.Duration `json:"ttl_step_ns,omitempty"`
	MaxTTL  time.Duration `json:"max_ttl_ns,omitempty"`
	MaxKey  int           `json:"max_key_bytes,omitempty"`
}

// Summary is what follows from the results.
type Summary struct {
	Counts     map[Outcome]int `json:"outcomes"`
	Deviations []Declared      `json:"deviations,omitempty"`
	Unclaimed  driver.Claims   `json:"unclaimed,omitempty"`
	Unchecked  driver.Claims   `json:"unchecked,omitempty"`
}

// summarize works the summary out of the results.
func (r *Report) summarize(declared []Deviation) {
	r.Summary = Summary{
		Counts: make(map[Outcome]int), Deviations: settle(declared, r.Results, r.Selection.Stopped),
		Unclaimed: r.Unclaimed(), Unchecked: r.Unchecked(),
	}
	for _, o := range Outcomes() {
		r.Summary.Counts[o] = r.Count(o)
	}
}

// Count is the number of results with that outcome.
func (r *Report) Count(o Outcome) int {
	n := 0
	for i := range r.Results {
		if r.Results[i].Outcome == o {
			n++
		}
	}
	return n
}

// Failed reports whether any case failed, or a deviation was declared that is none.
func (r *Report) Failed() bool { return r.Count(Fail) > 0 || len(r.Stale()) > 0 }

// Stale are the deviations that were declared, and whose cases all pass.
func (r *Report) Stale() []Declared {
	return slices.DeleteFunc(slices.Clone(r.Summary.Deviations), func(d Declared) bool { return !d.Stale })
}

// Unclaimed lists the capabilities that work although they are not claimed.
func (r *Report) Unclaimed() driver.Claims {
	var list driver.Claims
	for i := range r.Results {
		if c := r.Results[i].Unclaimed; c != "" && !list.Has(c) {
			list = append(list, c)
		}
	}
	return list
}

// Unchecked lists the claims that the store makes and no case has proved: no
// case decides them, or the harness lacked a hook.
func (r *Report) Unchecked() driver.Claims {
	var list driver.Claims
	for _, claim := range r.Store.Claims {
		proved := false
		for i := range r.Results {
			proved = proved || r.Results[i].Proves == claim && r.Results[i].Outcome == Pass
		}
		if !proved {
			list = append(list, claim)
		}
	}
	return list
}

// Line is the report in one line.
func (r *Report) Line() string {
	var parts []string
	if n := r.Count(Deviates); n > 0 {
		parts = append(parts, fmt.Sprintf("%d declared as deviations", n))
	}
	parts = append(parts, fmt.Sprintf("%d passed, %d failed, %d unsupported, %d unproven in %v; seed %d",
		r.Count(Pass), r.Count(Fail), r.Count(Unsupported), r.Count(Unproven), r.Took.Round(time.Millisecond), r.Seed))
	return r.Store.product() + ": " + strings.Join(parts, ", ")
}
