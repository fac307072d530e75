// Package report writes what a run of the conformance suite found: pages of Markdown and HTML, measurements, and the
// progress of a run. It is given texts and numbers, and judges nothing.
package report

// Page is a page of reports: a column for each report.
type Page struct {
	Suite      string
	Columns    []string
	Runs       []Run
	Deviations []Deviation
	Failures   []Failure
	Profiles   []Row
	Claims     []Row
	Figures    []Row
	Plots      []Plot
	Clauses    []Row
	Cases      []Row
	Notes      []Note
}

// Run is where a report is from.
type Run struct {
	Store   string
	Result  string
	Bad     bool
	Details [][2]string
}

// Deviation is a declared deviation, and what came of it.
type Deviation struct{ Store, What, Reason, State string }

// Failure is a case that failed, with its evidence.
type Failure struct {
	Store                                  string
	ID, Name, Clause, Outcome, Remedy, Why string
	Messages                               []Message
}

// Note is why a case neither passed nor failed.
type Note struct {
	Outcome, Case, Reason string
	Stores                []string
}

// Row is a row of a table, with a cell for each column.
type Row struct {
	Head, Note string
	Cells      []Cell
}

// Cell is a mark. Class is the outcome that it stands for.
type Cell struct{ Mark, Class, Title string }

// Matrix is a table with a column for each report.
type Matrix struct {
	Title, Head string
	Columns     []string
	Rows        []Row
}

// Matrices are the tables, in the order of the page.
func (p *Page) Matrices() []Matrix {
	return []Matrix{
		{"Profiles", "profile", p.Columns, p.Profiles},
		{"Figures", "measured", p.Columns, p.Figures},
		{"Claims", "claim", p.Columns, p.Claims},
		{"Clauses", "clause", p.Columns, p.Clauses},
		{"Cases", "case", p.Columns, p.Cases},
	}
}
