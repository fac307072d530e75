package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Markdown writes the page in Markdown.
func (p *Page) Markdown(w io.Writer) error {
	var b bytes.Buffer
	p.markdown(&b)
	_, err := w.Write(b.Bytes())
	return err
}

func (p *Page) markdown(b *bytes.Buffer) {
	fmt.Fprintf(b, "## Deviations\n\n")
	if len(p.Deviations) == 0 {
		fmt.Fprintf(b, "None is declared.\n")
	}
	for _, d := range p.Deviations {
		fmt.Fprintf(b, "- **%s, %s**: %s (%s)\n", md(d.Store), md(d.What), md(d.Reason), md(d.State))
	}
	fmt.Fprintf(b, "\n## Results\n\nVersion %s of the suite.\n\n| store | result | run |\n| --- | --- | --- |\n", md(p.Suite))
	for _, r := range p.Runs {
		var details []string
		for _, d := range r.Details {
			details = append(details, md(d[0])+": "+md(d[1]))
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", md(r.Store), md(r.Result), strings.Join(details, "; "))
	}
	p.markdownFailures(b)
	p.table(b, "Profiles", "profile", p.Profiles)
	p.table(b, "Figures", "measured", p.Figures)
	fmt.Fprintf(b, "\n✓ pass, ✗ fail, ≠ declared deviation, – unsupported: not claimed, ? unproven.\n")
	p.table(b, "Claims", "claim", p.Claims)
	fmt.Fprintf(b, "\nOn trust: claimed, and no case of the suite can decide it. Could: it works, but is not claimed.\n")
	p.table(b, "Clauses", "clause", p.Clauses)
	p.table(b, "Cases", "case", p.Cases)
	if len(p.Notes) > 0 {
		fmt.Fprintf(b, "\n## What did not pass, and why\n\n")
	}
	for _, n := range p.Notes {
		fmt.Fprintf(b, "- %s, %s on %s: %s\n", md(n.Case), n.Outcome, md(Join(n.Stores)), md(n.Reason))
	}
}

// table writes rows under a heading.
func (p *Page) table(b *bytes.Buffer, heading, head string, rows []Row) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n| %s |", heading, head)
	for _, c := range p.Columns {
		fmt.Fprintf(b, " %s |", md(c))
	}
	fmt.Fprintf(b, "\n| --- |%s\n", strings.Repeat(" --- |", len(p.Columns)))
	for _, r := range rows {
		fmt.Fprintf(b, "| %s |", strings.TrimSpace("**"+md(r.Head)+"** "+md(r.Note)))
		for _, c := range r.Cells {
			fmt.Fprintf(b, " %s |", md(c.Mark))
		}
		b.WriteByte('\n')
	}
}

func (p *Page) markdownFailures(b *bytes.Buffer) {
	if len(p.Failures) > 0 {
		fmt.Fprintf(b, "\n## What failed\n")
	}
	for _, f := range p.Failures {
		fmt.Fprintf(b, "\n### %s: %s %s, clause %s\n\n", md(f.Store), md(f.ID), md(f.Name), md(f.Clause))
		for _, m := range f.Messages {
			fmt.Fprintf(b, "- %s: %s\n", md(m.At), md(cut(m.Text)))
		}
		fmt.Fprintf(b, "\nUsual remedy: %s. Why it matters: %s.\n", md(f.Remedy), md(f.Why))
	}
}

var mdEscapes = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "|", `\|`, "#", `\#`, "~", `\~`,
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "\r", " ", "\n", " ",
)

// md makes text safe in a table of Markdown.
func md(text string) string { return mdEscapes.Replace(text) }
