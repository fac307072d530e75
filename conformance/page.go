package conformance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// page is what a Markdown or HTML page of reports shows: a column for each report.
type page struct {
	Suite      string
	Columns    []string
	Runs       []source
	Deviations []deviating
	Failures   []failure
	Profiles   []row
	Claims     []row
	Figures    []row
	Plots      []plot
	Clauses    []row
	Cases      []row
	Notes      []note
}

// source is where a report is from.
type source struct {
	Store   string
	Result  string
	Bad     bool
	Details [][2]string
}

type deviating struct{ Store, What, Reason, State string }

// failure is a case that failed, with its evidence.
type failure struct {
	Store  string
	Result Result
}

// note is why a case neither passed nor failed.
type note struct {
	Outcome Outcome
	Case    string
	Reason  string
	Stores  []string
}

type row struct {
	Head, Note string
	Cells      []cell
}

// cell is a mark. Class is the outcome that it stands for.
type cell struct {
	Mark  string
	Class Outcome
	Title string
}

// marks of the outcomes.
var marks = map[Outcome]string{Pass: "✓", Fail: "✗", Deviates: "≠", Unsupported: "–", Unproven: "?"}

func newPage(reports []*Report) *page {
	p := &page{Suite: Version}
	labels := make(map[string]int)
	for _, r := range reports {
		label := r.Store.product()
		if labels[label]++; labels[label] > 1 {
			label = fmt.Sprintf("%s (%d)", label, labels[label])
		}
		p.Columns = append(p.Columns, label)
		p.addRun(label, r)
	}
	p.addVerdicts(reports)
	p.addClaims(reports)
	p.addFigures(reports)
	p.addCases(reports)
	p.Plots = plots(p.Columns, reports)
	return p
}

// product is the store's name, with product and version where they say more.
func (s *Store) product() string {
	name := cmp.Or(s.Name, "?")
	switch {
	case s.Server == "":
		return name
	case strings.HasPrefix(strings.ToLower(s.Server), strings.ToLower(name)):
		return s.Server
	}
	return name + " " + s.Server
}

func (p *page) addRun(label string, r *Report) {
	from := source{Store: label, Result: r.outcomes(), Bad: r.Failed()}
	add := func(name, value string) {
		if value != "" {
			from.Details = append(from.Details, [2]string{name, value})
		}
	}
	add("adapter", strings.TrimSpace(r.Adapter.Package+" "+r.Adapter.Version))
	for _, name := range slices.Sorted(maps.Keys(r.Store.Settings)) {
		add(name, r.Store.Settings[name])
	}
	add("settings", r.Store.Mute)
	add("environment", fmt.Sprintf("%s, %s/%s, %d CPUs", r.Env.Go, r.Env.OS, r.Env.Arch, r.Env.CPUs))
	add("kernel", r.Env.Kernel)
	add("cases", r.Selection.String())
	add("run", fmt.Sprintf("%s, %s, seed %d", r.Started.UTC().Format("2006-01-02 15:04 UTC"), r.Took.Round(time.Second), r.Seed))
	if r.Suite != Version {
		add("suite", "version "+r.Suite+": it does not compare")
	}
	p.Runs = append(p.Runs, from)
	for _, d := range r.Summary.Deviations {
		state := "failed as declared: " + join(d.Failed)
		switch {
		case d.Stale:
			state = "declared, but it passes: remove it"
		case len(d.Failed) == 0:
			state = "its cases did not run"
		}
		p.Deviations = append(p.Deviations, deviating{label, d.what(), d.Reason, state})
	}
	for _, res := range r.Results {
		if res.Outcome == Fail || res.Outcome == Deviates {
			p.Failures = append(p.Failures, failure{label, res})
		}
	}
}

func (s Selection) String() string {
	text := "all"
	if s.Profile != "" {
		text = "those of the profile " + s.Profile
	} else if s.Partial {
		text = "a selection"
	}
	if s.Fast {
		text += ", but for slow ones: a fast pass"
	}
	if s.Stopped {
		text += ", and the run was stopped before its end"
	}
	return text
}

// outcomes counts them, the weightiest first.
func (r *Report) outcomes() string {
	var parts []string
	for _, o := range Outcomes() {
		if n := r.Count(o); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	return strings.Join(parts, ", ")
}

func (p *page) addVerdicts(reports []*Report) {
	for _, profile := range Profiles() {
		line := row{Head: profile.Name, Note: profile.About}
		for _, r := range reports {
			v := r.judge(&profile)
			c := cell{Mark: string(v.Judgement), Title: v.String()}
			switch v.Judgement {
			case Meets:
				c.Class = Pass
			case NotProved:
				c.Class = Unproven
			case MeetsNot:
				c.Class = Unsupported
				if len(v.Failed) > 0 {
					c.Class = Fail
				}
				c.Mark += v.shortly()
			}
			line.Cells = append(line.Cells, c)
		}
		p.Profiles = append(p.Profiles, line)
	}
}

// shortly is why a profile is not met.
func (v Verdict) shortly() string {
	switch {
	case v.Reason != "":
		return ": " + v.Reason
	case len(v.Failed) > 0:
		return ": " + join(v.Failed)
	}
	return ": no " + join(v.Missing)
}

// matrix is a table with a column for each report.
type matrix struct {
	Title, Head string
	Columns     []string
	Rows        []row
}

// Matrices are the tables, in the order of the page.
func (p *page) Matrices() []matrix {
	return []matrix{
		{"Profiles", "profile", p.Columns, p.Profiles},
		{"Figures", "measured", p.Columns, p.Figures},
		{"Claims", "claim", p.Columns, p.Claims},
		{"Clauses", "clause", p.Columns, p.Clauses},
		{"Cases", "case", p.Columns, p.Cases},
	}
}
