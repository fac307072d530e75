package conformance

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
)

//go:embed report.html.tmpl
var htmlText string

var htmlPage = template.Must(template.New("report").Funcs(template.FuncMap{
	"cut":  cut,
	"join": join[string],
	"add":  func(a, b int) int { return a + b },
}).Parse(htmlText))

// WriteHTML writes a page of one or several reports, a column for each. It is
// self-contained: it needs neither network nor scripts.
func WriteHTML(w io.Writer, reports ...*Report) error {
	var b bytes.Buffer
	if err := htmlPage.Execute(&b, newPage(reports)); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}
