package conformance

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// marks of the outcomes.
var marks = map[Outcome]string{Pass: "✓", Fail: "✗", Deviates: "≠", Unsupported: "–", Unproven: "?"}

const legend = "✓ pass, ✗ fail, ≠ declared deviation, – unsupported, ? unproven; a number counts cases."

// WriteTable writes a table in Markdown, which is also readable as text: a row for each clause that has cases in the
// reports, a column for each report.
func WriteTable(w io.Writer, reports ...*Report) error {
	rows := [][]string{{"clause"}, {""}}
	names := make(map[string]int)
	for _, r := range reports {
		name := r.Store.product()
		if names[name]++; names[name] > 1 {
			name = fmt.Sprintf("%s (%d)", name, names[name])
		}
		rows[0] = append(rows[0], md(name))
	}
	for _, clause := range clauseTitles {
		row := []string{clause.id + " " + clause.title}
		for _, r := range reports {
			row = append(row, r.cell(clause.id))
		}
		if strings.Join(row[1:], "") != "" {
			rows = append(rows, row)
		}
	}
	_, err := io.WriteString(w, align(rows)+"\n"+legend+"\n")
	return err
}

// align gives the columns of a table the same width. The second row separates the head.
func align(rows [][]string) string {
	var b strings.Builder
	for i := range rows {
		for j := range rows[0] {
			width := 0
			for _, row := range rows {
				if j < len(row) {
					width = max(width, utf8.RuneCountInString(row[j]))
				}
			}
			text, fill := "", "-"
			if i != 1 {
				text, fill = rows[i][j], " "
			}
			b.WriteString("| " + text + strings.Repeat(fill, width-utf8.RuneCountInString(text)) + " ")
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// cell sums up the cases of a clause. What failed is named.
func (r *Report) cell(clause string) string {
	var parts []string
	for _, o := range []Outcome{Fail, Deviates, Pass, Unsupported, Unproven} {
		var ids []string
		for i := range r.Results {
			if r.Results[i].Clause == clause && r.Results[i].Outcome == o {
				ids = append(ids, r.Results[i].ID)
			}
		}
		switch {
		case len(ids) == 0:
		case o == Fail || o == Deviates:
			parts = append(parts, marks[o]+" "+strings.Join(ids, ", "))
		default:
			parts = append(parts, fmt.Sprintf("%s %d", marks[o], len(ids)))
		}
	}
	return strings.Join(parts, " ")
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

// writeMarkdown writes what a person wants to know of one report.
func writeMarkdown(w io.Writer, r *Report) error {
	fmt.Fprintf(w, "# Conformance\n\n%s; version %s of the suite.\n\n", md(r.Line()), md(r.Suite))
	if err := WriteTable(w, r); err != nil {
		return err
	}
	fmt.Fprintln(w)
	results := slices.Clone(r.Results)
	slices.SortStableFunc(results, func(a, b Result) int { // the weightiest first
		return slices.Index(Outcomes(), a.Outcome) - slices.Index(Outcomes(), b.Outcome)
	})
	for i := range results {
		res, why := &results[i], results[i].Reason
		if res.Outcome == Fail {
			why = lastFailure(res.Messages)
		}
		if res.Outcome != Pass {
			fmt.Fprintf(w, "- %s, %s: %s\n", res.ID, res.Outcome, md(cut(why)))
		}
	}
	for _, d := range r.Stale() {
		fmt.Fprintf(w, "- the deviation from %s is declared, but it passes: remove it\n", md(d.what()))
	}
	return nil
}

// cut shortens a message that holds, say, the stacks of all goroutines.
func cut(text string) string {
	const enough = 1000
	if len(text) <= enough {
		return text
	}
	return strings.ToValidUTF8(text[:enough], "") + " … (the JSON report has all of it)"
}

var mdEscapes = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "|", `\|`, "#", `\#`, "~", `\~`,
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "\r", " ", "\n", " ",
)

// md makes text safe in Markdown.
func md(text string) string { return mdEscapes.Replace(text) }
