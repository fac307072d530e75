package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// The control sequences of ECMA-48 and xterm that a screen uses.
const (
	screenOn   = "\x1b[?1049h\x1b[?25l" // the other screen, without a cursor
	screenOff  = "\x1b[?25h\x1b[?1049l"
	screenHome = "\x1b[H"
	lineRest   = "\x1b[K"
	screenRest = "\x1b[J"
)

// screen keeps a table up to date on a terminal. What was there before comes back in
// the end, followed by the last table.
type screen struct {
	out  io.Writer
	last string
}

func newScreen(out io.Writer) *screen {
	io.WriteString(out, screenOn)
	return &screen{out: out}
}

// show draws over what was drawn before, in one write, so that nothing flickers.
func (s *screen) show(sights []sight) error {
	s.last = table(sights)
	frame := time.Now().Format(time.DateTime) + "   Ctrl-C ends\n\n" + s.last
	_, err := io.WriteString(s.out, screenHome+strings.ReplaceAll(frame, "\n", lineRest+"\n")+screenRest)
	return err
}

func (s *screen) close() { io.WriteString(s.out, screenOff+s.last) }

// table is the sights in columns.
func table(sights []sight) string {
	var width [5]int
	rows := make([][5]string, 0, len(sights))
	for _, s := range sights {
		cells := s.cells()
		if s.failed == nil { // an error is as long as it is
			for i, c := range cells {
				width[i] = max(width[i], len([]rune(c)))
			}
		}
		rows = append(rows, cells)
	}
	var b strings.Builder
	for _, cells := range rows {
		var line strings.Builder
		for i, c := range cells {
			fmt.Fprintf(&line, "%-*s  ", width[i], c)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
