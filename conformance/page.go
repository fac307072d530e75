package conformance

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord/conformance/internal/report"
)

// marks of the outcomes.
var marks = map[Outcome]string{Pass: "✓", Fail: "✗", Deviates: "≠", Unsupported: "–", Unproven: "?"}

// page is what a Markdown or HTML page of reports is made of.
type page struct{ report.Page }

// cell stands for an outcome.
func cell(mark string, class Outcome, title string) report.Cell {
	return report.Cell{Mark: mark, Class: string(class), Title: title}
}

// newPage gives what a page shows: a column for each report.
func newPage(reports []*Report) *page {
	p := &page{report.Page{Suite: Version}}
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
	p.addPlots(reports)
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
	from := report.Run{Store: label, Result: r.outcomes(), Bad: r.Failed()}
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
		state := "failed as declared: " + report.Join(d.Failed)
		switch {
		case d.Stale:
			state = "declared, but it passes: remove it"
		case len(d.Failed) == 0:
			state = "its cases did not run"
		}
		p.Deviations = append(p.Deviations, report.Deviation{Store: label, What: d.what(), Reason: d.Reason, State: state})
	}
	for _, res := range r.Results {
		if res.Outcome == Fail || res.Outcome == Deviates {
			p.Failures = append(p.Failures, failureOf(label, &res))
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
		line := report.Row{Head: profile.Name, Note: profile.About}
		for _, r := range reports {
			v := r.judge(&profile)
			c := report.Cell{Mark: string(v.Judgement), Title: v.String()}
			switch v.Judgement {
			case Meets:
				c.Class = string(Pass)
			case NotProved:
				c.Class = string(Unproven)
			case MeetsNot:
				c.Class = string(Unsupported)
				if len(v.Failed) > 0 {
					c.Class = string(Fail)
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
		return ": " + report.Join(v.Failed)
	}
	return ": no " + report.Join(v.Missing)
}

func failureOf(store string, res *Result) report.Failure {
	f := report.Failure{
		Store: store, ID: res.ID, Name: res.Name, Clause: res.Clause, Outcome: string(res.Outcome), Remedy: res.Remedy, Why: res.Why,
	}
	for _, m := range res.Messages {
		f.Messages = append(f.Messages, report.Message(m))
	}
	return f
}

// addPlots draws what was measured.
func (p *page) addPlots(reports []*Report) {
	all := make([]map[string]report.Spread, len(reports))
	for i, r := range reports {
		var m Measures
		for j := range r.Results {
			m.merge(r.Results[j].Measures)
		}
		all[i] = make(map[string]report.Spread)
		for name, s := range m.Times {
			all[i][name] = report.Spread(s)
		}
	}
	p.Plots = report.Plots(p.Columns, all)
}

// WriteMarkdown writes a page of one or several reports, a column for each.
func WriteMarkdown(w io.Writer, reports ...*Report) error { return newPage(reports).Markdown(w) }

// WriteHTML writes a page of one or several reports, a column for each. It is
// self-contained: it needs neither network nor scripts.
func WriteHTML(w io.Writer, reports ...*Report) error { return newPage(reports).HTML(w) }
