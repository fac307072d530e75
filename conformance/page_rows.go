package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coordgo/coord/conformance/internal/report"
	"github.com/coordgo/coord/driver"
)

func (p *page) addClaims(reports []*Report) {
	for _, claim := range driver.AllClaims() {
		line := report.Row{Head: string(claim)}
		for _, r := range reports {
			line.Cells = append(line.Cells, r.claimCell(claim))
		}
		p.Claims = append(p.Claims, line)
	}
}

// claimCell says whether a claim is made, and kept.
func (r *Report) claimCell(claim driver.Claim) report.Cell {
	if !r.Store.Claims.Has(claim) {
		if r.Unclaimed().Has(claim) {
			return cell("could", Unsupported, "it works, but is not claimed")
		}
		return cell(marks[Unsupported], Unsupported, "not claimed")
	}
	if why := undecided[claim]; why != "" {
		return cell("on trust", Unproven, "no case decides it: "+why)
	}
	worst := Outcome("")
	for i := range r.Results {
		if res := &r.Results[i]; res.Proves == claim && (worst == "" || weight(res.Outcome) < weight(worst)) {
			worst = res.Outcome
		}
	}
	if worst == "" {
		return cell(marks[Unproven], Unproven, "claimed; the case that decides it did not run")
	}
	return cell(marks[worst], worst, "claimed; the case that decides it: "+string(worst))
}

func weight(o Outcome) int { return slices.Index(Outcomes(), o) }

func (p *page) addFigures(reports []*Report) {
	lines := make(map[string]*report.Row)
	var names []string
	for i, r := range reports {
		for _, f := range r.Summary.Figures {
			if lines[f.Name] == nil {
				lines[f.Name] = &report.Row{Head: f.Name, Cells: slices.Repeat([]report.Cell{{Mark: marks[Unsupported]}}, len(reports))}
				names = append(names, f.Name)
			}
			lines[f.Name].Cells[i] = report.Cell{Mark: f.Value, Title: fmt.Sprintf("of %d", f.Of)}
		}
	}
	for _, name := range names {
		p.Figures = append(p.Figures, *lines[name])
	}
}

// addCases adds the matrix, by clause and by case, and what there is to say of cells
// that are no pass.
func (p *page) addCases(reports []*Report) {
	cases := make(map[string]Case)
	results := make([]map[string]*Result, len(reports))
	for i, r := range reports {
		results[i] = make(map[string]*Result)
		for j := range r.Results {
			res := &r.Results[j]
			cases[res.ID], results[i][res.ID] = res.Case, res
		}
	}
	ids := slices.SortedFunc(maps.Keys(cases), byID)
	for _, id := range ids {
		c := cases[id]
		line := report.Row{Head: id, Note: c.Name + " (" + c.Clause + ")"}
		for i := range reports {
			line.Cells = append(line.Cells, caseCell(results[i][id]))
			if res := results[i][id]; res != nil && res.Reason != "" {
				p.note(p.Columns[i], res)
			}
		}
		p.Cases = append(p.Cases, line)
	}
	for _, clause := range clauseTitles {
		line := report.Row{Head: clause.id, Note: clause.title}
		for i := range reports {
			line.Cells = append(line.Cells, clauseCell(clause.id, ids, results[i]))
		}
		p.Clauses = append(p.Clauses, line)
	}
}

func caseCell(res *Result) report.Cell {
	if res == nil {
		return report.Cell{Title: "not run"}
	}
	title := string(res.Outcome)
	if res.Reason != "" {
		title += ": " + res.Reason
	}
	return cell(marks[res.Outcome], res.Outcome, title)
}

// clauseCell sums up the cases of a clause. What failed is named.
func clauseCell(clause string, ids []string, results map[string]*Result) report.Cell {
	by := make(map[Outcome][]string)
	for _, id := range ids {
		if res := results[id]; res != nil && res.Clause == clause {
			by[res.Outcome] = append(by[res.Outcome], id)
		}
	}
	var c report.Cell
	var parts []string
	for _, o := range Outcomes() {
		if len(by[o]) == 0 {
			continue
		}
		if c.Class == "" || c.Class == string(Unsupported) {
			c.Class = string(o)
		}
		part := fmt.Sprintf("%s %d", marks[o], len(by[o]))
		if o == Fail || o == Deviates {
			part = marks[o] + " " + report.Join(by[o])
		}
		parts = append(parts, part)
	}
	c.Mark = strings.Join(parts, ", ")
	return c
}

// note keeps a reason, once for all stores that share it.
func (p *page) note(store string, res *Result) {
	for i := range p.Notes {
		n := &p.Notes[i]
		if n.Case == res.ID && n.Outcome == string(res.Outcome) && n.Reason == res.Reason {
			n.Stores = append(n.Stores, store)
			return
		}
	}
	p.Notes = append(p.Notes, report.Note{Outcome: string(res.Outcome), Case: res.ID, Reason: res.Reason, Stores: []string{store}})
}
