package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// JSON is the report as [ParseReport] reads it.
func (r *Report) JSON() ([]byte, error) {
	data, err := json.MarshalIndent(r, "", "  ")
	return append(data, '\n'), err
}

// ParseReport reads a report back. It refuses one of another schema, and one whose
// cases make no sense.
func ParseReport(data []byte) (*Report, error) {
	var head struct {
		Schema *int `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("conformance: not a report: %w", err)
	}
	switch {
	case head.Schema == nil:
		return nil, errors.New("conformance: not a report: it has no schema")
	case *head.Schema != Schema:
		return nil, fmt.Errorf("conformance: the report is of schema %d, this program reads schema %d: run the suite again", *head.Schema, Schema)
	}
	r := new(Report)
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(r); err != nil {
		return nil, fmt.Errorf("conformance: not a report: %w", err)
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	if r.Suite == Version {
		// What the summary says is what the cases say.
		var declared []Deviation
		for _, d := range r.Summary.Deviations {
			declared = append(declared, d.Deviation)
		}
		r.summarize(declared)
	}
	return r, nil
}

// check finds what no run can have written.
func (r *Report) check() error {
	seen := make(map[string]bool)
	for i := range r.Results {
		res := &r.Results[i]
		switch {
		case res.ID == "" || seen[res.ID]:
			return fmt.Errorf("conformance: not a report: case %d has the id %q, which is empty or repeated", i, res.ID)
		case !slices.Contains(Outcomes(), res.Outcome):
			return fmt.Errorf("conformance: not a report: case %s has the outcome %q", res.ID, res.Outcome)
		}
		seen[res.ID] = true
	}
	return nil
}
