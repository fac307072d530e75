package conformance

import (
	"time"

	"github.com/coordgo/coord/driver"
)

// Schema is the version of the JSON form of a [Report]. It grows by fields;
// another number means that a field has changed or gone.
const Schema = 1

// Outcome is how a case ended.
type Outcome string

// The outcomes.
const (
	Pass        Outcome = "pass"
	Fail        Outcome = "fail"
	Unsupported Outcome = "unsupported"
	Unproven    Outcome = "unproven"
)

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
	Unclaimed driver.Claim             `json:"unclaimed,omitempty"`
	Messages  []Message                `json:"messages,omitempty"`
	Measures  map[string]time.Duration `json:"measures_ns,omitempty"`
	Took      time.Duration            `json:"took_ns"`
}

// Report is the result of a run.
type Report struct {
	Schema  int           `json:"schema"`
	Seed    uint64        `json:"seed"`
	Run     string        `json:"run"` // part of every key of the run
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took_ns"`
	Store   driver.Info   `json:"store"`
	Env     Environment   `json:"environment"`
	Results []Result      `json:"results"`
}

// Environment is where the suite ran.
type Environment struct {
	Go   string `json:"go"`
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	// Starved is the longest time for which the suite's own process was not scheduled.
	Starved time.Duration `json:"starved_ns"`
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

// Failed reports whether any case failed.
func (r *Report) Failed() bool { return r.Count(Fail) > 0 }

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
