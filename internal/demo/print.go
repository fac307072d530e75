package demo

import (
	"fmt"
	"io"
)

// printer writes the report and counts the broken promises.
type printer struct {
	out    io.Writer
	colour bool
	checks int
	broken int
	err    error // the first of writing
}

func (p *printer) print(text string) {
	if _, err := io.WriteString(p.out, text); p.err == nil {
		p.err = err
	}
}

func (p *printer) line(format string, args ...any) {
	p.print(fmt.Sprintf(format, args...) + "\n")
}

// note is a line inside an act.
func (p *printer) note(format string, args ...any) {
	p.print("   " + fmt.Sprintf(format, args...) + "\n")
}

// check prints what was measured, and whether it is as promised.
func (p *printer) check(kept bool, format string, args ...any) {
	p.checks++
	verdict := p.good("ok")
	if !kept {
		p.broken++
		verdict = p.bad("BROKEN")
	}
	p.print(fmt.Sprintf("   %-74s %s\n", fmt.Sprintf(format, args...), verdict))
}

func (p *printer) good(text string) string { return p.paint("32", text) }
func (p *printer) bad(text string) string  { return p.paint("1;31", text) }

func (p *printer) paint(code, text string) string {
	if !p.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
