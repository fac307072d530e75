package report

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
)

//go:embed page.html.tmpl
var htmlText string

var htmlPage = template.Must(template.New("page").Funcs(template.FuncMap{
	"cut":  cut,
	"join": Join[string],
	"add":  func(a, b int) int { return a + b },
}).Parse(htmlText))

// HTML writes the page in HTML. It is self-contained: it needs neither network nor scripts.
func (p *Page) HTML(w io.Writer) error {
	var b bytes.Buffer
	if err := htmlPage.Execute(&b, p); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}
